//! `--check-system`: checks whether this machine supports all features of the server, without starting it.

use std::fmt;

use os::{clock, process};
use reactor::{BackendChoice, Reactor, ReactorOptions};

use crate::process::limits::own_descriptors;

/// The result of a check.
enum CheckOutcome {
    Fine,
    /// What is missing, its effect, and the remedy.
    Warning(String),
}

impl fmt::Display for CheckOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine => out.write_str("OK"),
            Self::Warning(text) => write!(out, "WARNING:\n{text}\n"),
        }
    }
}

type Check = fn() -> CheckOutcome;

const CHECKS: &[(&str, Check)] = &[
    ("clocksource", clock_source),
    ("backlog", backlog),
    ("open-files", open_files),
    ("io-uring", io_uring),
];

/// Runs all checks. Returns the report, and whether all succeeded.
#[must_use]
pub fn report() -> (String, bool) {
    let outcomes: Vec<(&str, CheckOutcome)> = CHECKS.iter().map(|(name, check)| (*name, check())).collect();
    let is_fine = outcomes.iter().all(|(_, outcome)| matches!(outcome, CheckOutcome::Fine));
    let lines = outcomes.iter().map(|(name, outcome)| format!("[{name}]...{outcome}\n"));
    (lines.collect(), is_fine)
}

fn clock_source() -> CheckOutcome {
    clock::calibrate();
    if clock::uses_counter() {
        return CheckOutcome::Fine;
    }
    CheckOutcome::Warning(
        "The processor's time stamp counter can't be used, so reading the clock costs much more. See \
         /sys/devices/system/clocksource/clocksource0/."
            .to_owned(),
    )
}

fn backlog() -> CheckOutcome {
    let wanted = config::Config::default().tcp_backlog;
    let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    match text.trim().parse::<u32>() {
        Ok(most) if most < wanted => CheckOutcome::Warning(format!(
            "Connections that may wait to be accepted: {most} at most, and tcp-backlog is {wanted} by default. Raise \
             net.core.somaxconn."
        )),
        Ok(_) | Err(_) => CheckOutcome::Fine,
    }
}

fn open_files() -> CheckOutcome {
    let mut config = config::Config::default();
    config.io_threads.resolve(process::cpu_count());
    let wanted = u64::from(config.maxclients) + own_descriptors(&config);
    match process::raise_open_file_limit(wanted) {
        Ok(limit) if limit.soft >= wanted => CheckOutcome::Fine,
        Ok(limit) => CheckOutcome::Warning(format!(
            "The limit of open files is {}, and the default maxclients needs {wanted}. Raise 'ulimit -n'.",
            limit.soft
        )),
        Err(error) => CheckOutcome::Warning(format!("The limit of open files can't be read: {error}")),
    }
}

fn io_uring() -> CheckOutcome {
    match Reactor::new(BackendChoice::Uring, ReactorOptions::default()) {
        Ok(_) => CheckOutcome::Fine,
        Err(error) => CheckOutcome::Warning(format!(
            "io_uring can't be used. epoll takes 10 to 20 % more processor time without pipelines: {error}"
        )),
    }
}
