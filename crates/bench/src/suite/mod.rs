//! Suites: whole sets of measurements declared as data, run by one command.
//!
//! A suite is a `static` in a file of its own; `runner` carries it out. Start reading at `headline`.

pub mod headline;
pub mod modes;
pub mod runner;

use crate::distribution::Distribution;
use crate::error::BenchError;

/// A named set of measurements.
#[derive(Debug)]
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// Title of the report.
    pub title: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// The servers, by their known names.
    pub servers: &'static [&'static str],
    /// Those of them that keep no data: nothing about memory and growth is asked of them.
    pub dataless: &'static [&'static str],
    /// Servers that the others are compared with.
    pub baselines: &'static [&'static str],
    /// The load where a section doesn't say otherwise.
    pub load: SuiteLoad,
    /// The parts, in order.
    pub sections: &'static [Section],
}

/// The load common to a suite.
#[derive(Debug)]
pub struct SuiteLoad {
    /// Connections of the load generator.
    pub connection_count: usize,
    /// Distinct keys.
    pub key_count: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value, as on the command line.
    pub value_size: &'static str,
    /// Interleaved rounds.
    pub round_count: usize,
    /// Load before each measured window.
    pub warmup_ms: u64,
    /// Length of a window.
    pub length_ms: u64,
}

/// One part of a suite.
#[derive(Debug)]
pub struct Section {
    /// Name on the command line.
    pub name: &'static str,
    /// Heading in the report.
    pub title: &'static str,
    /// What is done, for the report.
    pub about: &'static str,
    /// Another length of the windows than the suite's.
    pub length_ms: Option<u64>,
    /// What is done.
    pub part: Part,
}

/// What a section measures.
#[derive(Debug)]
pub enum Part {
    /// All servers of the suite, each with one thread, under the same loads.
    Compare {
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// The servers that keep data, each with one thread, against the better of some of them.
    AgainstTheBetter {
        /// The servers that the better one of is what the others are compared with.
        of: &'static [&'static str],
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// Resident memory of collections.
    Collections {
        /// What fresh servers are filled with.
        cases: &'static [MemoryCase],
    },
    /// One server in several variants under the same loads. Nothing is pinned, since variants have more threads.
    Variants {
        /// The server's name.
        server: &'static str,
        /// The variants. Those with one thread are what the others are compared with.
        variants: &'static [Variant],
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// Resident memory a key of all servers.
    Memory {
        /// Keys written.
        key_count: u64,
        /// Value sizes, as on the command line.
        value_sizes: &'static [&'static str],
    },
    /// Servers with one thread, started anew for each mode.
    Modes {
        /// The servers, by their known names, unless the user names others.
        servers: &'static [&'static str],
        /// The one that the others are compared with.
        baseline: &'static str,
        /// The modes.
        modes: &'static [Mode],
    },
    /// What a calm reader sees while the server does something large.
    Stalls {
        /// The servers, by their known names, unless the user names others.
        servers: &'static [&'static str],
        /// Reads a second.
        read_rate: f64,
        /// Repetitions.
        round_count: usize,
        /// What the server does meanwhile.
        cases: &'static [StallCase],
    },
    /// Reads while the store grows from empty.
    Growth {
        /// Keys written.
        key_count: u64,
        /// Repetitions.
        round_count: usize,
        /// Reads a second.
        read_rate: f64,
        /// Connections of the reader.
        read_connection_count: usize,
        /// Connections of the writer.
        write_connection_count: usize,
        /// Pipeline of the writer.
        write_pipeline: u64,
    },
}

/// One load of a suite.
#[derive(Debug)]
pub struct SuiteCase {
    /// Name in the report.
    pub name: &'static str,
    /// A named workload.
    pub workload: &'static str,
    /// Requests under way on a connection.
    pub pipeline: u64,
}

/// A filling whose resident memory is measured.
#[derive(Debug)]
pub struct MemoryCase {
    /// Name in the report.
    pub name: &'static str,
    /// The named workload that it is the filling of.
    pub workload: &'static str,
    /// Keys, unless the workload says how many.
    pub key_count: u64,
}

/// How a variant of a server is started.
#[derive(Debug)]
pub struct Variant {
    /// Name in the report.
    pub name: &'static str,
    /// `{threads}`
    pub thread_count: usize,
    /// `{io}`
    pub io_backend: &'static str,
}

/// A way in which servers are used, and the load that is measured in it.
#[derive(Debug)]
pub struct Mode {
    /// Name in the report.
    pub name: &'static str,
    /// Further words of the servers' command lines.
    pub directives: &'static str,
    /// How connections begin.
    pub login: ModeLogin,
    /// Connections that are there meanwhile, and what each of them has sent.
    pub elsewhere: Option<(usize, &'static str)>,
    /// What every key's number is appended to.
    pub key_prefix: &'static str,
    /// The command that each key is filled with once, beforehand.
    pub fill: Option<&'static str>,
    /// What is measured, with relative frequencies.
    pub commands: &'static [(u32, &'static str)],
    /// Connections.
    pub connection_count: usize,
    /// Requests under way on a connection.
    pub pipeline: u64,
    /// Distinct keys.
    pub key_count: u64,
    /// Bytes of a value, as on the command line.
    pub value_size: &'static str,
    /// Which keys.
    pub distribution: Distribution,
    /// The highest ratio to the baseline's CPU time a request that is wanted.
    pub goal: f64,
}

/// How the connections of a mode begin.
#[derive(Clone, Copy, Debug)]
pub struct ModeLogin {
    /// AUTH.
    pub password: Option<&'static str>,
    /// SELECT.
    pub database: u32,
    /// HELLO 3.
    pub resp3: bool,
}

/// Something large beside a calm reader.
#[derive(Debug)]
pub struct StallCase {
    /// Name in the report.
    pub name: &'static str,
    /// Further words of the servers' command lines.
    pub directives: &'static str,
    /// Commands sent beforehand, each so many times and with that many keys.
    pub setup: &'static [(u64, &'static str)],
    /// Keys written beforehand.
    pub key_count: u64,
    /// New keys written a second meanwhile.
    pub write_rate: Option<f64>,
    /// Large requests meanwhile.
    pub disturbance: Option<Disturbance>,
    /// Length of the window.
    pub length_ms: u64,
}

/// Large requests.
#[derive(Debug)]
pub struct Disturbance {
    /// The request.
    pub command: &'static str,
    /// How many of them.
    pub count: u64,
    /// How many a second.
    pub rate: f64,
}

/// All suites.
pub static SUITES: &[&Suite] = &[&headline::SUITE];

/// The suite of this name.
pub fn by_name(name: &str) -> Result<&'static Suite, BenchError> {
    SUITES.iter().find(|suite| suite.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        BenchError::usage(format!("unknown suite '{name}'; there are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::known;
    use crate::values::ValueSize;
    use crate::workload::Workload;

    #[test]
    fn suites_name_what_exists() {
        for suite in SUITES {
            assert!(suite.baselines.iter().all(|baseline| suite.servers.contains(baseline)));
            assert!(suite.servers.iter().all(|server| known::by_name(server).is_some()));
            assert!(suite.load.value_size.parse::<ValueSize>().is_ok());
            for section in suite.sections {
                let cases = match &section.part {
                    Part::Compare { cases } => cases,
                    Part::AgainstTheBetter { of, cases } => {
                        assert!(of.iter().all(|server| suite.servers.contains(server)));
                        cases
                    }
                    Part::Collections { cases } => {
                        for case in *cases {
                            assert!(Workload::named(case.workload).unwrap().fill.is_some());
                        }
                        continue;
                    }
                    Part::Variants { server, variants, cases } => {
                        assert!(suite.servers.contains(server));
                        assert!(variants.iter().any(|variant| variant.thread_count == 1));
                        cases
                    }
                    Part::Memory { value_sizes, .. } => {
                        assert!(value_sizes.iter().all(|size| size.parse::<ValueSize>().is_ok()));
                        continue;
                    }
                    Part::Modes { servers, baseline, modes } => {
                        assert!(servers.iter().all(|server| suite.servers.contains(server)));
                        assert!(servers.contains(baseline));
                        for mode in *modes {
                            mode.workload().unwrap();
                            assert!(mode.value_size.parse::<ValueSize>().is_ok());
                            assert!(shlex::split(mode.directives).is_some() && mode.goal > 0.0);
                        }
                        continue;
                    }
                    Part::Stalls { servers, cases, .. } => {
                        assert!(servers.iter().all(|server| suite.servers.contains(server)));
                        for case in *cases {
                            assert!(shlex::split(case.directives).is_some() && case.length_ms > 0);
                        }
                        continue;
                    }
                    Part::Growth { .. } => continue,
                };
                for case in *cases {
                    Workload::named(case.workload).unwrap();
                }
            }
        }
    }
}
