//! Runs the sections of modes and of stalls, which restart the servers for each case.

use std::io::Write;
use std::time::Duration;

use super::stalls::{StallSettings, measure_stalls};
use crate::case::{Case, LoadSettings};
use crate::control::{Login, Target};
use crate::encryption::socket::Socket;
use crate::error::BenchError;
use crate::load::Live;
use crate::outcome::{Findings, ModeOutcome};
use crate::progress::RunProgress;
use crate::running_servers::{RoundSettings, RunningServers};
use crate::server::running::StartOptions;
use crate::server::spec::ServerSpec;
use crate::suite::runner::{QUICK_KEY_DIVISOR, QUICK_ROUND_COUNT, Runner};
use crate::suite::{Mode, StallCase};
use crate::workload::{USUAL, Weighted, Workload};

/// Window of a stall case under `--quick`: long enough for one large request.
const QUICK_STALL_MS: u64 = 1_500;

impl Mode {
    /// Returns the workload of the mode.
    pub fn workload(&self) -> Result<Workload, BenchError> {
        let commands = self.commands.iter();
        Ok(Workload {
            name: self.name.to_owned(),
            commands: commands
                .map(|&(weight, command)| Weighted { weight, command: command.to_owned() })
                .collect(),
            key_prefix: self.key_prefix.to_owned(),
            fill: self.fill.map(str::to_owned),
            distribution: Some(self.distribution),
            from_empty: false,
            own: USUAL,
        })
    }

    fn login(&self) -> Login {
        Login {
            user: None,
            password: self.login.password.map(str::to_owned),
            database: self.login.database,
            resp3: self.login.resp3,
        }
    }
}

impl Runner<'_> {
    pub(super) fn modes(
        &mut self,
        servers: &[&str],
        baseline: &str,
        modes: &[Mode],
    ) -> Result<Findings, BenchError> {
        let servers = self.servers_of(servers);
        let mut outcomes = Vec::new();
        let modes: Vec<&Mode> = modes.iter().filter(|mode| self.is_selected(mode.name)).collect();
        for mode in modes {
            let start = StartOptions {
                login: mode.login(),
                further_words: words(mode.directives)?,
                ..self.start(1, "auto")
            };
            let mut running_servers = RunningServers::default();
            for spec in &servers {
                let added = running_servers.add(spec, &start);
                self.or_failure(spec, added)?;
            }
            running_servers.infos().into_iter().for_each(|info| self.note(info));
            let load = LoadSettings {
                connection_count: mode.connection_count,
                pipeline: mode.pipeline,
                // Not scaled: the size of a full cache is independent of the scale.
                key_count: mode.key_count,
                value_size: mode.value_size.parse()?,
                ..self.load()?
            };
            let _idle_connections = running_servers
                .targets()
                .map(|target| open_idle_connections(target, mode.idle_connections))
                .collect::<Result<Vec<Vec<Socket>>, BenchError>>()?;
            let rounds = RoundSettings {
                round_count: self.round_count(),
                baselines: vec![baseline.to_owned()],
                against_the_better: false,
                may_flush: false,
                fills: true,
                shows_progress: self.options.shows_progress,
            };
            let case = Case::new(mode.name.to_owned(), mode.workload()?, load);
            let cases = running_servers.compare(&[case], &rounds)?;
            outcomes.extend(cases.into_iter().map(|mut case| {
                // A full cache evicts keys, so null replies are expected.
                case.is_filled = !mode.directives.contains("maxmemory");
                ModeOutcome { case, goal: mode.goal }
            }));
            self.outcome.failures.extend(running_servers.into_failures());
        }
        Ok(Findings::Modes(outcomes))
    }

    pub(super) fn stalls(
        &mut self,
        servers: &[&str],
        read_rate: f64,
        round_count: usize,
        cases: &[StallCase],
    ) -> Result<Findings, BenchError> {
        let servers = self.servers_of(servers);
        let round_count = self.options.round_count.unwrap_or(round_count);
        let cases: Vec<&StallCase> = cases.iter().filter(|case| self.is_selected(case.name)).collect();
        let mut progress =
            RunProgress::new(servers.len() * round_count * cases.len(), self.options.shows_progress);
        let mut outcomes = Vec::new();
        for case in cases {
            let load = self.load()?;
            let length_ms = if self.options.is_quick { QUICK_STALL_MS } else { case.length_ms };
            let length = Duration::from_millis(length_ms);
            let settings = StallSettings {
                load: LoadSettings {
                    key_count: self.scaled(case.key_count),
                    length: self.options.length.unwrap_or(length),
                    ..load
                },
                read_rate,
                divisor: if self.options.is_quick { QUICK_KEY_DIVISOR } else { 1 },
            };
            let start = StartOptions { further_words: words(case.directives)?, ..self.start(1, "auto") };
            for round in 0..round_count {
                for turn in 0..servers.len() {
                    let spec = &servers[(round + turn) % servers.len()];
                    let what = format!("{} · {} · {}/{round_count}", case.name, spec.name, round + 1);
                    let show = |live: Live| progress.watch(&what, live);
                    let measured = measure_stalls(spec, &start, &settings, case, round, &show);
                    if let Some((outcome, info)) = self.or_failure(spec, measured)? {
                        outcomes.push(outcome);
                        self.note(info);
                    }
                    progress.finish_run();
                }
            }
        }
        Ok(Findings::Stalls(outcomes))
    }

    /// Returns the servers that the user selects, or else those of the section.
    fn servers_of(&self, names: &[&str]) -> Vec<ServerSpec> {
        let is_wanted =
            |spec: &ServerSpec| !self.options.servers.is_empty() || names.contains(&spec.name.as_str());
        self.with_data().into_iter().filter(is_wanted).collect()
    }

    fn round_count(&self) -> usize {
        let usual = if self.options.is_quick { QUICK_ROUND_COUNT } else { self.suite.load.round_count };
        self.options.round_count.unwrap_or(usual)
    }
}

/// Opens connections that each send one request and then stay idle.
fn open_idle_connections(
    target: &Target,
    idle_connections: Option<(usize, &str)>,
) -> Result<Vec<Socket>, BenchError> {
    let Some((count, command)) = idle_connections else {
        return Ok(Vec::new());
    };
    let opened = (0..count).map(|_| {
        let mut socket = target.connect()?;
        socket.write_all(format!("{command}\r\n").as_bytes())?;
        Ok(socket)
    });
    let opened: std::io::Result<Vec<Socket>> = opened.collect();
    opened.map_err(|error| BenchError::server(&target.name, format!("connecting: {error}")))
}

fn words(directives: &str) -> Result<Vec<String>, BenchError> {
    shlex::split(directives).ok_or_else(|| BenchError::usage(format!("unclosed quote in '{directives}'")))
}
