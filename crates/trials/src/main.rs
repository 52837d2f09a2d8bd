//! The command line of the trials, for more seeds than a test runs: `trials differential`, `trials linearisability`.

use std::env;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use trials::differential::contest::Contest;
use trials::differential::ensembles::ENSEMBLES;
use trials::differential::families::FAMILIES;
use trials::differential::sequence::Recipe;
use trials::linearisability::recorder::{Plan, record};
use trials::linearisability::search;
use trials::server::{Program, Server};

const USAGE: &str = "\
usage: trials differential [--seeds N] [--from SEED] [--family NAME] [--length N] [--server PATH] [--keep-going]
       trials linearisability [--seeds N] [--from SEED] [--server PATH] [--io-threads N]

differential plays N random sequences (default 1000) of a command family, or of all families in turn, to our server and
to Valkey and reports the first answer that differs, with what Redis says to it. linearisability records N histories of
many clients, of one key and of several, and looks for an order that explains each.
Programs: --server, BROADLOOM_BIN or the one that cargo built, and those of tests/peers/install (BROADLOOM_PEERS).";

struct Options {
    trial: String,
    io_threads: Option<String>,
    seeds: u64,
    from: u64,
    family: Option<String>,
    length: usize,
    server: Option<String>,
    keep_going: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let run = match options.trial.as_str() {
        "differential" => differential,
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

fn parse(arguments: &[String]) -> Option<Options> {
    let mut words = arguments.iter();
    let trial =
        words.next().filter(|trial| matches!(trial.as_str(), "differential" | "linearisability"))?.clone();
    let mut options = Options {
        trial,
        io_threads: None,
        seeds: 1000,
        from: 0,
        family: None,
        length: 150,
        server: None,
        keep_going: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--keep-going" => options.keep_going = true,
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

fn our_program(options: &Options) -> io::Result<Program> {
    let given = options.server.as_ref().map(|path| Program::new("ours", Path::new(path)));
    let ours =
        given.or_else(Program::broadloom).ok_or_else(|| io::Error::other("no server: build it first"))?;
    Ok(match &options.io_threads {
        Some(count) => ours.with_arguments(&["--io-threads", count]),
        None => ours,
    })
}

/// Records and checks histories; returns how many have no explanation.
fn linearisability(options: &Options) -> io::Result<usize> {
    let server = Server::start(&our_program(options)?)?;
    let started = Instant::now();
    for seed in options.from..options.from + options.seeds {
        let single = search::check_each_key(&record(&server, &Plan::SINGLE, seed)?);
        let several = search::check(&record(&server, &Plan::SEVERAL, seed)?);
        if let Err(failure) = single.and(several) {
            println!("seed {seed}: {failure}");
            return Ok(1);
        }
    }
    println!(
        "linearisability: {} histories each of one key and of several in {:.1?}",
        options.seeds,
        started.elapsed()
    );
    Ok(0)
}

/// Plays the sequences; returns how many were answered differently.
fn differential(options: &Options) -> io::Result<usize> {
    let given = options.server.as_ref().map(|path| Program::new("ours", Path::new(path)));
    let ours =
        given.or_else(Program::broadloom).ok_or_else(|| io::Error::other("no server: build it first"))?;
    let judge = Program::valkey().ok_or_else(|| io::Error::other("no valkey: run tests/peers/install"))?;
    let mut contest = Contest::start(&judge, &ours, Program::redis().as_ref())?;
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
            if let Some(mismatch) = contest.play(&recipe.make(seed))? {
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
