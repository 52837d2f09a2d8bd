//! The load generator: puts load on Redis-compatible servers and compares them.
//!
//! Owns its sockets, its load threads and the servers that it starts. Depends on Broadloom through the
//! protocol only. Reading order: `cli` (options), `case` (a workload with settings), `running_servers` (servers and
//! interleaved rounds), `load` (threads and connections), `encryption` (TLS below them), `template` and `reply` (the bytes), `sample`,
//! `statistics` and `outcome` (the figures), `report` (output), `suite` (sets of measurements declared as
//! data).
//!
//! Principles:
//! 1. Servers are compared round by round and by CPU time per request; both cancel out machine drift.
//! 2. Open-loop latency counts from the intended send time: a stall shows in every request that it delays.
//! 3. No failure is silent: error replies, missing keys and unreached rates set remarks and the exit status.

mod accounting;
mod case;
mod cli;
mod control;
mod distribution;
mod echo;
mod encryption;
mod error;
mod growth;
mod keys;
mod load;
mod machine;
mod memory;
mod outcome;
mod pinning;
mod progress;
mod remarks;
mod reply;
mod report;
mod running_servers;
mod sample;
mod server;
mod statistics;
mod suite;
mod template;
mod values;
mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::case::{Case, LoadSettings};
use crate::cli::{Cli, CommonArgs, RunArgs, SuiteArgs, SuiteCommand};
use crate::control::Login;
use crate::encryption::Encryption;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::outcome::{Findings, Report, SectionOutcome};
use crate::running_servers::{RoundSettings, RunningServers};
use crate::server::known;
use crate::server::running::StartOptions;
use crate::server::spec::ServerSpec;
use crate::suite::SUITES;
use crate::suite::runner::SuiteOptions;
use crate::workload::Workload;

/// Runs the benchmark as a program.
///
/// `args` begin with the command prefix in one string: `broadloom bench`, or `broadloom-bench`. Must run on
/// the main thread: started servers are killed when the thread that started them ends.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.is_empty() {
        args.push("broadloom-bench".into());
    }
    tool::run("bench", args, "will not stop the started servers", |cli: &Cli, called_as| {
        let own_words = own_words(called_as);
        match &cli.subcommand {
            None if cli.run.list => print(&list()),
            None if cli.run.echo => {
                echo::serve(cli.run.port, cli.run.server_threads as usize, &cli.run.io_backend)
            }
            None => run_load(&cli.run, own_words),
            Some(SuiteCommand::Suite(suite)) => run_suite(suite, own_words),
        }
    })
}

/// Returns the path of this program and the words after its name that select the benchmark.
fn own_words(called_as: &str) -> Vec<String> {
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let words = called_as.split_whitespace().skip(1).map(str::to_owned);
    program.into_iter().chain(words).collect()
}

fn run_load(args: &RunArgs, own_words: Vec<String>) -> Result<(), BenchError> {
    let cases = cases(args)?;
    let mut specs = args.server.clone();
    if specs.is_empty() {
        specs.push("127.0.0.1:6379".parse()?);
    }
    let baselines = match (&args.baseline[..], &specs[..]) {
        ([], [_, .., last]) => vec![last.name.clone()],
        (named, _) => named.to_vec(),
    };
    if let Some(unknown) = baselines.iter().find(|&name| specs.iter().all(|spec| spec.name != *name)) {
        return Err(BenchError::usage(format!("the baseline '{unknown}' is not one of the servers")));
    }
    let encryption = encryption(args, &mut specs)?;
    let start = StartOptions {
        thread_count: args.server_threads as usize,
        io_backend: args.io_backend.clone(),
        own_words,
        cpus: args.common.server_cpus.clone().unwrap_or_default(),
        login: Login {
            user: args.login.user.clone(),
            password: args.login.password.clone(),
            database: args.login.db,
            resp3: false,
        },
        encryption,
        further_words: Vec::new(),
    };
    let mut report = new_report("Load");
    let mut running_servers = RunningServers::default();
    for spec in &specs {
        running_servers.add(spec, &start)?;
    }
    report.servers = running_servers.infos();
    let rounds = RoundSettings {
        round_count: args.windows.rounds as usize,
        baselines,
        against_the_better: false,
        may_flush: args.work.flush,
        fills: !args.work.no_fill,
        shows_progress: !args.common.no_progress,
    };
    let findings = Findings::Comparison(running_servers.compare(&cases, &rounds)?);
    let about = format!("{} interleaved rounds.", args.windows.rounds);
    report.sections.push(SectionOutcome { title: "Comparison".to_owned(), about, findings });
    report.failures = running_servers.into_failures();
    finish(report, &args.common)
}

/// Returns the TLS of all connections, and changes the commands of known servers to ones with TLS.
fn encryption(args: &RunArgs, specs: &mut [ServerSpec]) -> Result<Option<Arc<Encryption>>, BenchError> {
    let starts_servers = specs.iter().any(ServerSpec::is_started);
    let Some(options) = args.tls.options(starts_servers) else {
        return match specs.iter().find(|spec| spec.needs_tls()) {
            None => Ok(None),
            Some(spec) => Err(BenchError::usage(format!(
                "the command of '{}' has {{cert}}, {{key}} or {{cacert}}, which need --tls",
                spec.name
            ))),
        };
    };
    for spec in specs {
        *spec = spec.clone().with_tls()?;
    }
    Encryption::new(&options).map(Arc::new).map(Some)
}

/// Returns one case for each workload and pipeline depth.
fn cases(args: &RunArgs) -> Result<Vec<Case>, BenchError> {
    let workloads = if !args.work.command.is_empty() {
        vec![Workload::free(&args.work.command, args.work.fill_command.as_deref())?]
    } else if let Some(mix) = &args.work.mix {
        vec![Workload::mix(mix)?]
    } else {
        args.work.workload.iter().map(|name| Workload::named(name)).collect::<Result<_, _>>()?
    };
    let mut cases = Vec::new();
    for workload in workloads {
        for &pipeline in &args.pipeline {
            let load = LoadSettings {
                thread_count: args.common.threads as usize,
                connection_count: args.connections as usize,
                pipeline,
                key_count: args.keyspace.keys,
                key_size: args.keyspace.key_size,
                value_size: args.keyspace.value_size,
                distribution: args.keyspace.distribution,
                rate: args.rate,
                warmup: args.windows.warmup,
                length: args.windows.seconds,
                request_count: args.windows.requests,
                seed: args.common.seed,
                client_cpus: args.common.client_cpus.clone().unwrap_or_default(),
            };
            let name = format!("{} p{pipeline}", workload.name);
            let case = Case::new(name, workload.clone(), load);
            // Rejects unrenderable requests before any server starts.
            case.plan(0)?;
            case.fill_plan()?;
            cases.push(case);
        }
    }
    Ok(cases)
}

fn run_suite(args: &SuiteArgs, own_words: Vec<String>) -> Result<(), BenchError> {
    let suite = suite::by_name(&args.name)?;
    let options = SuiteOptions {
        sections: args.section.clone(),
        cases: args.case.clone(),
        servers: args.server.clone(),
        is_quick: args.quick,
        round_count: args.rounds.map(|count| count as usize),
        length: args.seconds,
        load_thread_count: args.common.threads as usize,
        seed: args.common.seed,
        start: StartOptions {
            thread_count: 1,
            io_backend: String::new(),
            own_words,
            cpus: args.common.server_cpus.clone().unwrap_or_default(),
            login: Login::default(),
            encryption: None,
            further_words: Vec::new(),
        },
        client_cpus: args.common.client_cpus.clone().unwrap_or_default(),
        shows_progress: !args.common.no_progress,
    };
    let outcome = suite::runner::run(suite, &options)?;
    let mut report = new_report(suite.title);
    report.servers = outcome.servers;
    report.sections = outcome.sections;
    report.remarks = outcome.remarks;
    report.failures = outcome.failures;
    if args.quick {
        report.remarks.insert(0, "Measured with --quick: do not quote these figures.".to_owned());
    }
    finish(report, &args.common)
}

fn new_report(title: &str) -> Report {
    Report {
        title: title.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        machine: Machine::this(),
        servers: Vec::new(),
        sections: Vec::new(),
        remarks: Vec::new(),
        failures: Vec::new(),
        error_count: 0,
    }
}

/// Adds the remarks, then prints the report and writes its files.
fn finish(mut report: Report, args: &CommonArgs) -> Result<(), BenchError> {
    for section in &report.sections {
        report.remarks.extend(remarks::of(&section.findings));
        report.error_count += remarks::error_count(&section.findings);
    }
    report.remarks.extend(report.failures.iter().map(|failure| format!("FAILED: {failure}")));
    let on_stdout =
        [&args.json, &args.csv, &args.markdown].into_iter().flatten().any(|path| path == Path::new("-"));
    if !on_stdout {
        print(&report::terminal(&report))?;
    }
    if let Some(path) = &args.json {
        let json = report::json(&report).map_err(|error| BenchError::environment("JSON")(error.into()))?;
        write(path, &json)?;
    }
    if let Some(path) = &args.csv {
        write(path, &report::csv::csv(&report).map_err(BenchError::environment("CSV"))?)?;
    }
    if let Some(path) = &args.markdown {
        write(path, &report::markdown(&report))?;
    }
    if !report.failures.is_empty() {
        return Err(BenchError::Incomplete(report.failures.len()));
    }
    if report.error_count > 0 && !args.allow_errors {
        return Err(BenchError::ErrorReplies(report.error_count));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    if path == Path::new("-") {
        return print(text);
    }
    std::fs::write(path, text).map_err(BenchError::environment(format!("writing {}", path.display())))
}

fn print(text: &str) -> Result<(), BenchError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(BenchError::environment("writing to standard output"))
}

fn list() -> String {
    let mut text = "Workloads:\n".to_owned();
    for named in workload::named() {
        text.push_str(&format!("  {:<16} {}\n", named.name, named.about));
    }
    text.push_str("\nSuites:\n");
    for suite in SUITES {
        text.push_str(&format!("  {:<16} {}\n", suite.name, suite.about));
        for section in suite.sections {
            text.push_str(&format!("    {:<14} {}\n", section.name, section.title));
        }
    }
    text.push_str("\nKnown servers:\n");
    for known in known::known() {
        text.push_str(&format!("  {:<16} {} {}\n", known.name, known.program, known.arguments));
    }
    text
}
