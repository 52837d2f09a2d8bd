//! The command line of the trials, for longer runs than the tests: `trials differential`, `trials
//! linearisability`, `trials cost`.

use std::env;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use trials::cost;
use trials::cost::report::Form;
use trials::differential::comparison::Comparison;
use trials::differential::ensembles::ENSEMBLES;
use trials::differential::families::FAMILIES;
use trials::differential::sequence::Recipe;
use trials::linearisability::recorder::{Plan, record};
use trials::linearisability::search;
use trials::server::{Program, Server};

const USAGE: &str = "\
usage: trials differential [--seeds N] [--from SEED] [--family NAME] [--length N] [--server PATH] [--keep-going]
       trials linearisability [--seeds N] [--from SEED] [--server PATH] [--io-threads N]
       trials cost [--quick] [--only TEXT] [--part I/N] [--rounds N] [--markdown] [--server PATH]

differential plays N random sequences (default 1000) of a command family, or of all families in turn, to our server and
to Valkey, and reports the first reply that differs, with Redis's reply. linearisability records N histories of many
clients, on one key, on several and with scripts, and searches for an order that explains each. cost measures the cost of commands
with N and 4N elements, keys or bytes, on our server and on Valkey, and fails if a cost or its growth exceeds a limit;
--part 1/3 selects every third case, starting with the first.
Programs: --server, BROADLOOM_BIN or the build by cargo, and the peers of tests/peers/install (BROADLOOM_PEERS).";

struct CommandLine {
    trial: String,
    io_threads: Option<String>,
    seeds: u64,
    from: u64,
    family: Option<String>,
    length: usize,
    server: Option<String>,
    keep_going: bool,
    quick: bool,
    markdown: bool,
    only: String,
    part: (usize, usize),
    rounds: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let run = match options.trial.as_str() {
        "differential" => differential,
        "cost" => cost,
        _ => linearisability,
    };
    match run(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("trials: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Option<CommandLine> {
    let mut words = arguments.iter();
    let trial = words
        .next()
        .filter(|trial| matches!(trial.as_str(), "differential" | "linearisability" | "cost"))?
        .clone();
    let mut options = CommandLine {
        trial,
        io_threads: None,
        seeds: 1000,
        from: 0,
        family: None,
        length: 150,
        server: None,
        keep_going: false,
        quick: false,
        markdown: false,
        only: String::new(),
        part: (1, 1),
        rounds: 3,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--keep-going" => options.keep_going = true,
            "--quick" => options.quick = true,
            "--markdown" => options.markdown = true,
            "--only" => options.only = words.next()?.clone(),
            "--part" => {
                let (part, count) = words.next()?.split_once('/')?;
                options.part = (part.parse().ok()?, count.parse().ok().filter(|count| *count > 0)?);
            }
            "--rounds" => options.rounds = words.next()?.parse().ok().filter(|rounds| *rounds > 0)?,
            "--seeds" => options.seeds = words.next()?.parse().ok()?,
            "--from" => options.from = words.next()?.parse().ok()?,
            "--length" => options.length = words.next()?.parse().ok()?,
            "--io-threads" => options.io_threads = Some(words.next()?.clone()),
            "--family" => options.family = Some(words.next()?.clone()),
            "--server" => options.server = Some(words.next()?.clone()),
            _ => return None,
        }
    }
    Some(options)
}

fn our_program(options: &CommandLine) -> io::Result<Program> {
    let given = options.server.as_ref().map(|path| Program::new("ours", Path::new(path)));
    let ours =
        given.or_else(Program::broadloom).ok_or_else(|| io::Error::other("no server: build it first"))?;
    Ok(match &options.io_threads {
        Some(count) => ours.with_arguments(&["--io-threads", count]),
        None => ours,
    })
}

/// Records and checks histories; returns the number that can't be explained.
fn linearisability(options: &CommandLine) -> io::Result<usize> {
    let server = Server::start(&our_program(options)?)?;
    let started = Instant::now();
    for seed in options.from..options.from + options.seeds {
        let single = search::check_each_key(&record(&server, &Plan::SINGLE, seed)?);
        let several = search::check(&record(&server, &Plan::SEVERAL, seed)?);
        let scripted = search::check(&record(&server, &Plan::SCRIPTED, seed)?);
        if let Err(failure) = single.and(several).and(scripted) {
            println!("seed {seed}: {failure}");
            return Ok(1);
        }
    }
    println!(
        "linearisability: {} histories each of one key, of several and of scripts in {:.1?}",
        options.seeds,
        started.elapsed()
    );
    Ok(0)
}

/// Measures the cases of the cost audit; returns the number over a limit.
fn cost(options: &CommandLine) -> io::Result<usize> {
    let ours = our_program(options)?.with_arguments(&["--io-threads", "1"]);
    let reference =
        Program::valkey().ok_or_else(|| io::Error::other("no valkey: run tests/peers/install"))?;
    let plan =
        cost::Plan { is_quick: options.quick, rounds: options.rounds, allowance: cost::Allowance::NONE };
    let form = if options.markdown { Form::Markdown } else { Form::Aligned };
    let started = Instant::now();
    println!("{}", form.head());
    let (part, part_count) = options.part;
    let wanted = |number: usize, case: &cost::cases::Case| {
        number % part_count + 1 == part
            && (case.title.contains(&options.only) || case.request.contains(&options.only))
    };
    let report = |finding: &cost::Finding| println!("{}", form.finding(finding));
    let findings = cost::audit(&ours, &reference, plan, wanted, report)?;
    let over_count = findings.iter().filter(|finding| !finding.complaint().is_empty()).count();
    println!("\n{} cases, {over_count} over a limit, in {:.1?}", findings.len(), started.elapsed());
    Ok(over_count)
}

/// Plays the sequences; returns the number with differing replies.
fn differential(options: &CommandLine) -> io::Result<usize> {
    let given = options.server.as_ref().map(|path| Program::new("ours", Path::new(path)));
    let ours =
        given.or_else(Program::broadloom).ok_or_else(|| io::Error::other("no server: build it first"))?;
    let reference =
        Program::valkey().ok_or_else(|| io::Error::other("no valkey: run tests/peers/install"))?;
    let mut comparison = Comparison::start(&reference, &ours, Program::redis().as_ref())?;
    let families: Vec<Option<&str>> = match &options.family {
        Some(name) => vec![Some(name.as_str())],
        None => {
            let ensembles = ENSEMBLES.iter().map(|ensemble| Some(ensemble.name));
            FAMILIES.iter().map(|family| Some(family.name)).chain([None]).chain(ensembles).collect()
        }
    };
    let mut mismatch_count = 0;
    for family in families {
        let started = Instant::now();
        let recipe = Recipe::new(family, options.length).ok_or_else(|| io::Error::other("no such family"))?;
        for seed in options.from..options.from + options.seeds {
            if let Some(mismatch) = comparison.play(&recipe.make(seed))? {
                println!("{}: {mismatch}", family.unwrap_or("mixed"));
                mismatch_count += 1;
                if !options.keep_going {
                    return Ok(mismatch_count);
                }
            }
        }
        let name = family.unwrap_or("mixed");
        println!(
            "{name}: {} sequences of {} requests in {:.1?}",
            options.seeds,
            options.length,
            started.elapsed()
        );
    }
    Ok(mismatch_count)
}
