//! `cargo run -p sim`: runs seeds, repeats one with a readable trace, and counts the seeds until a planted
//! fault is found.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use sim::plan::Focus;
use sim::run::{Report, RunOptions, Scenario, run};
use sync::simulation::Fault;

#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

/// Runs the whole server in a simulation: threads, network and clocks follow a seed, so that every run is
/// reproducible.
///
/// Without options, runs new seeds for one minute. A failing run prints its seed and the failure; `--seed`
/// repeats it with a trace of all events.
#[derive(Parser)]
#[command(name = "sim", version)]
struct Cli {
    /// Repeat one seed, with a readable trace
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Run these seeds, the second one excluded
    #[arg(long, value_name = "A..B", value_parser = parse_range, conflicts_with = "minutes")]
    seeds: Option<(u64, u64)>,
    /// Run new seeds for this many minutes
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Reintroduce a defect, and report after how many seeds it was found
    #[arg(long, value_name = "NAME", value_parser = parse_fault)]
    fault: Option<Fault>,
    /// Runs with a disk that crashes, instead of runs with many loads
    #[arg(long)]
    crashes: bool,
    /// Runs with a primary and replicas that take its place, instead of runs with many loads
    #[arg(long, conflicts_with = "crashes")]
    failovers: bool,
    /// List the defects that can be reintroduced
    #[arg(long)]
    list_faults: bool,
    /// Print only the result and the digest, without the trace
    #[arg(long)]
    quiet: bool,
    /// Add thread switches to the trace
    #[arg(long)]
    switches: bool,
    /// Run all seeds in this process, instead of in short-lived child processes
    #[arg(long, hide = true)]
    in_process: bool,
}

/// Seeds run by a child process before it is replaced.
const SEEDS_A_PROCESS: u64 = 20;
/// Prefix of the line in which a child process reports the sum of its runs.
const SUM: &str = "sum";

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.list_faults {
        sim::faults::ALL
            .iter()
            .for_each(|known| println!("{:20} {}", known.fault.name, known.fault.meaning()));
        return ExitCode::SUCCESS;
    }
    match (cli.seed, cli.seeds) {
        (Some(seed), _) => repeat(&cli, seed),
        (None, Some((first, end))) => run_all(&cli, first..end, None),
        (None, None) => {
            // New seeds each time; failures are reported with their seed.
            let first = fresh_seed();
            run_all(&cli, first..u64::MAX, Some(Duration::from_secs_f64(cli.minutes * 60.0)))
        }
    }
}

fn repeat(cli: &Cli, seed: u64) -> ExitCode {
    let mut options = options(cli);
    if !cli.quiet {
        options.trace =
            Some(Box::new(|us, thread, text| println!("{:>12.3} {thread:16} {text}", us as f64 / 1000.0)));
        options.traces_switches = cli.switches;
    }
    let report = run(seed, options);
    println!("plan: {:?}", report.plan);
    print_report(cli, &report);
    exit_code(report.failure.is_none())
}

/// Runs seeds in child processes, a few seeds each, because a server leaves its tables behind and a failure
/// its threads.
fn run_all(cli: &Cli, seeds: std::ops::Range<u64>, time: Option<Duration>) -> ExitCode {
    if cli.in_process {
        return run_here(cli, seeds);
    }
    let start = Instant::now();
    let mut sum = Sum::default();
    let mut next = seeds.start;
    while next < seeds.end && sum.failed.is_none() && time.is_none_or(|time| start.elapsed() < time) {
        let end = seeds.end.min(next + SEEDS_A_PROCESS);
        match run_elsewhere(cli, next..end) {
            Ok(part) => sum.add(&part),
            Err(error) => {
                println!("FAILED: the process of the seeds {next}..{end} ended: {error}");
                sum.failed = Some(next);
            }
        }
        next = end;
    }
    let (real, simulated) = (start.elapsed().as_secs_f64(), sum.virtual_us as f64 / 1e6);
    println!(
        "{} seeds in {real:.1} s: {simulated:.0} s of virtual time, {:.0} times real time",
        sum.count,
        simulated / real
    );
    match (sum.failed, cli.fault) {
        (Some(seed), Some(fault)) => {
            println!("{} was found after {} seed(s), by seed {seed}", fault.name, sum.count.max(1));
            ExitCode::SUCCESS
        }
        (None, Some(fault)) => {
            println!("{} was not found", fault.name);
            ExitCode::FAILURE
        }
        (failed, None) => exit_code(failed.is_none()),
    }
}

/// Sum of several runs.
#[derive(Default)]
struct Sum {
    count: u64,
    virtual_us: u64,
    failed: Option<u64>,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.virtual_us += other.virtual_us;
        self.failed = self.failed.or(other.failed);
    }
}

/// Runs seeds up to the first failure, and prints a line for [`run_elsewhere`].
fn run_here(cli: &Cli, seeds: std::ops::Range<u64>) -> ExitCode {
    let mut sum = Sum::default();
    for seed in seeds {
        let report = run(seed, options(cli));
        sum.count += 1;
        sum.virtual_us += report.outcome.virtual_us;
        if report.failure.is_some() {
            print_report(cli, &report);
            sum.failed = Some(seed);
            break;
        }
    }
    println!(
        "{SUM} {} {} {}",
        sum.count,
        sum.virtual_us,
        sum.failed.map_or("-".to_owned(), |seed| seed.to_string())
    );
    ExitCode::SUCCESS
}

fn run_elsewhere(cli: &Cli, seeds: std::ops::Range<u64>) -> std::io::Result<Sum> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--in-process", "--seeds", &format!("{}..{}", seeds.start, seeds.end)]);
    command.args(mode_option(cli));
    if let Some(known) = known_fault(cli) {
        command.args(["--fault", known.fault.name]);
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut sum = None;
    for line in text.lines() {
        match line.strip_prefix(SUM) {
            None => println!("{line}"),
            Some(numbers) => {
                let numbers: Vec<Option<u64>> =
                    numbers.split_whitespace().map(|word| word.parse().ok()).collect();
                if let [Some(count), Some(virtual_us), failed] = numbers[..] {
                    sum = Some(Sum { count, virtual_us, failed });
                }
            }
        }
    }
    sum.ok_or_else(|| std::io::Error::other(output.status.to_string()))
}

fn options(cli: &Cli) -> RunOptions {
    let scenario = match (cli.crashes, cli.failovers) {
        (true, _) => Scenario::Crashes,
        (_, true) => Scenario::Failovers,
        _ => known_fault(cli).map_or(Scenario::Loads, |known| known.scenario),
    };
    let focus = known_fault(cli).map_or(Focus::Anything, |known| known.focus);
    RunOptions { faults: cli.fault.into_iter().collect(), focus, scenario, ..RunOptions::default() }
}

/// The option that selects the kind of the runs.
fn mode_option(cli: &Cli) -> Option<&'static str> {
    match (cli.crashes, cli.failovers) {
        (true, _) => Some("--crashes"),
        (_, true) => Some("--failovers"),
        _ => None,
    }
}

fn known_fault(cli: &Cli) -> Option<&'static sim::faults::Known> {
    sim::faults::ALL.iter().find(|known| Some(known.fault) == cli.fault)
}

fn print_report(cli: &Cli, report: &Report) {
    let outcome = &report.outcome;
    println!(
        "seed {}: digest {:016x}, {} steps, {} switches, {:.3} s of virtual time, slowest reply {:.3} ms, {:?}",
        outcome.seed,
        outcome.digest,
        outcome.steps,
        outcome.switches,
        outcome.virtual_us as f64 / 1e6,
        report.slowest_us as f64 / 1e3,
        outcome.schedule
    );
    match &report.failure {
        Some(failure) => {
            let mode = mode_option(cli).map_or(String::new(), |option| format!("{option} "));
            println!("FAILED: {failure}\nreproduce with: cargo run -p sim -- {mode}--seed {}", outcome.seed)
        }
        None => println!("passed"),
    }
}

fn exit_code(is_fine: bool) -> ExitCode {
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let (first, end) = text.split_once("..").ok_or("expected two numbers separated by ..")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok((number(first)?, number(end)?))
}

fn parse_fault(name: &str) -> Result<Fault, String> {
    sim::faults::find(name).ok_or_else(|| "unknown fault; see --list-faults".to_owned())
}
