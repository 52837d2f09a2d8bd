//! The command line of the trials, for longer runs than the tests: `trials differential`, `trials
//! linearisability`, `trials cost`, `trials kills`.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};
use trials::cost;
use trials::cost::report::Form;
use trials::differential::comparison::Comparison;
use trials::differential::ensembles::ENSEMBLES;
use trials::differential::families::FAMILIES;
use trials::differential::sequence::Recipe;
use trials::kills::{Campaign, Hazards, Policy};
use trials::linearisability::recorder::{Plan, record};
use trials::linearisability::search;
use trials::server::{Program, Server};

#[derive(Parser)]
#[command(name = "trials", about = "Trials of a running server against others and against itself")]
struct CommandLine {
    #[command(subcommand)]
    trial: Trial,

    /// Server to test [default: $BROADLOOM_BIN, else the build by cargo]. Valkey and Redis are those of tests/peers/install,
    /// or in the directory $BROADLOOM_PEERS
    #[arg(long, global = true, value_name = "PATH")]
    server: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Trial {
    /// Plays random sequences of commands to our server and to Valkey, and reports the first reply that differs, with
    /// Redis's reply
    Differential(Sequences),
    /// Records histories of many clients on one key, on several and with scripts, and searches for an order that explains
    /// each
    Linearisability(Histories),
    /// Measures the cost of commands with N and 4N elements, keys or bytes on our server and on Valkey, and fails if a cost
    /// or its growth exceeds a limit
    Cost(Audit),
    /// Kills the server under load, starts it again, and compares its data with the replies that it has sent
    Kills(Kills),
}

#[derive(Args)]
struct Seeds {
    /// Number of seeds
    #[arg(long = "seeds", value_name = "N", default_value_t = 1000)]
    count: u64,
    /// First seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
}

impl Seeds {
    fn range(&self) -> Range<u64> {
        self.from..self.from.saturating_add(self.count)
    }
}

#[derive(Args)]
struct Sequences {
    #[command(flatten)]
    seeds: Seeds,
    /// Family of commands [default: all in turn]
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Requests of a sequence
    #[arg(long, value_name = "N", default_value_t = 150)]
    length: usize,
    /// Go on after a difference
    #[arg(long)]
    keep_going: bool,
}

#[derive(Args)]
struct Histories {
    #[command(flatten)]
    seeds: Seeds,
    /// Worker threads of the server
    #[arg(long, value_name = "N")]
    io_threads: Option<u16>,
}

#[derive(Args)]
struct Audit {
    /// Small sizes
    #[arg(long)]
    quick: bool,
    /// Only cases whose title or request contains the text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Part I of N parts of the cases: 1/3 selects every third case, starting with the first
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = parse_part)]
    part: (usize, usize),
    /// Measurements of each case, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_rounds)]
    rounds: usize,
    /// Print a table in Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Args)]
struct Kills {
    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 300)]
    count: usize,
    /// Policy of `appendfsync`: always, everysec or no [default: a third of the kills with each]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    policy: Option<Policy>,
    /// In three rounds of four let synchronisations, writes or renames fail, or synchronisations hang, before the kill
    #[arg(long)]
    failures: bool,
    /// Instead of killing the server alone, cut the power: what was not synchronised is lost, torn or reordered
    #[arg(long)]
    power_cuts: bool,
    /// Seed [default: a new one]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    let found = Policy::ALL.into_iter().find(|policy| policy.word() == text);
    found.ok_or_else(|| "always, everysec or no".to_owned())
}

fn parse_part(text: &str) -> Result<(usize, usize), String> {
    let numbers =
        text.split_once('/').and_then(|(part, count)| Some((part.parse().ok()?, count.parse().ok()?)));
    numbers
        .filter(|(part, count)| (1..=*count).contains(part))
        .ok_or_else(|| "I/N with I from 1 to N".to_owned())
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| "a number from 1".to_owned())
}

fn main() -> ExitCode {
    let CommandLine { trial, server } = CommandLine::parse();
    let run = || {
        let ours = match &server {
            Some(path) => Program::new("ours", path),
            None => Program::broadloom().ok_or_else(|| io::Error::other("no server: build it first"))?,
        };
        match &trial {
            Trial::Differential(options) => differential(&ours, options),
            Trial::Linearisability(options) => linearisability(ours, options),
            Trial::Cost(options) => cost(ours, options),
            Trial::Kills(options) => kills(&ours, options),
        }
    };
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("trials: {error}");
            ExitCode::from(2)
        }
    }
}

fn peer() -> io::Result<Program> {
    Program::valkey().ok_or_else(|| io::Error::other("no valkey: run tests/peers/install"))
}

/// Records and checks histories; returns the number that can't be explained.
fn linearisability(ours: Program, options: &Histories) -> io::Result<usize> {
    let ours = match options.io_threads {
        Some(count) => ours.with_threads(&count.to_string()),
        None => ours,
    };
    let server = Server::start(&ours)?;
    let started = Instant::now();
    for seed in options.seeds.range() {
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
        options.seeds.count,
        started.elapsed()
    );
    Ok(0)
}

/// Kills servers; returns the number of losses, after the first of which a policy's server is not killed again.
fn kills(ours: &Program, options: &Kills) -> io::Result<usize> {
    let hazards = Hazards { failures: options.failures, power_cuts: options.power_cuts };
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let seed = options.seed.unwrap_or_else(fresh);
    println!("seed {seed}");
    let policies = options.policy.map_or(Policy::ALL.to_vec(), |policy| vec![policy]);
    let mut loss_count = 0;
    for (number, policy) in policies.iter().enumerate() {
        let started = Instant::now();
        let mut campaign = Campaign::start(ours, *policy, hazards, seed)?;
        let count = options.count / policies.len() + usize::from(number < options.count % policies.len());
        for _ in 0..count {
            if let Err(loss) = campaign.kill_once(|_| Ok(())) {
                println!("after kill {}: {loss}", campaign.figures.kill_count);
                loss_count += 1;
                break;
            }
        }
        println!("{campaign}, in {:.0?}", started.elapsed());
    }
    Ok(loss_count)
}

/// Measures the cases of the cost audit; returns the number over a limit.
fn cost(ours: Program, options: &Audit) -> io::Result<usize> {
    let ours = ours.with_arguments(&["--io-threads", "1"]);
    let reference = peer()?;
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
fn differential(ours: &Program, options: &Sequences) -> io::Result<usize> {
    let mut comparison = Comparison::start(&peer()?, ours, Program::redis().as_ref())?;
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
        let recipe = Recipe::new(family, options.length)
            .ok_or_else(|| io::Error::other(format!("there is no family {}", family.unwrap_or_default())))?;
        for seed in options.seeds.range() {
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
            options.seeds.count,
            options.length,
            started.elapsed()
        );
    }
    Ok(mismatch_count)
}
