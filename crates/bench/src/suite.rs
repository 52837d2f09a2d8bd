//! Suites: sets of measurements declared as data, run by one command.
//!
//! A suite is a `static` in its own file; `runner` executes it. Start reading at `headline`.

pub mod headline;
pub mod modes;
pub mod runner;
mod stalls;

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
    /// Servers, by their known names.
    pub servers: &'static [&'static str],
    /// Servers without data, excluded from memory and growth measurements.
    pub dataless: &'static [&'static str],
    /// Servers that the others are compared with.
    pub baselines: &'static [&'static str],
    /// Default load of the sections.
    pub load: SuiteLoad,
    /// Sections, in order.
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
    /// Bytes of a value, in command-line syntax.
    pub value_size: &'static str,
    /// Interleaved rounds.
    pub round_count: usize,
    /// Load before each measured window.
    pub warmup_ms: u64,
    /// Length of a window.
    pub length_ms: u64,
}

/// One section of a suite.
#[derive(Debug)]
pub struct Section {
    /// Name on the command line.
    pub name: &'static str,
    /// Heading in the report.
    pub title: &'static str,
    /// Description for the report.
    pub about: &'static str,
    /// Length of the windows, instead of the suite's.
    pub length_ms: Option<u64>,
    /// The measurement.
    pub part: Part,
}

/// The measurement of a section.
#[derive(Debug)]
pub enum Part {
    /// All servers of the suite, each with one thread, under the same loads.
    Compare {
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// The servers that keep data, each with one thread, against the better of some servers.
    AgainstTheBetter {
        /// The servers of which the better one is the baseline.
        of: &'static [&'static str],
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// Resident memory of collections.
    Collections {
        /// Fills of fresh servers.
        cases: &'static [MemoryCase],
    },
    /// One server in several variants under the same loads. Not pinned, because variants have more threads.
    Variants {
        /// The server's name.
        server: &'static str,
        /// The variants. Those with one thread are the baselines.
        variants: &'static [Variant],
        /// The loads.
        cases: &'static [SuiteCase],
    },
    /// Resident memory per key of all servers.
    Memory {
        /// Keys written.
        key_count: u64,
        /// Value sizes, in command-line syntax.
        value_sizes: &'static [&'static str],
    },
    /// Servers with one thread, restarted for each mode.
    Modes {
        /// Servers, by their known names, unless the user selects others.
        servers: &'static [&'static str],
        /// Name of the baseline server.
        baseline: &'static str,
        /// The modes.
        modes: &'static [Mode],
    },
    /// Latency of a reader during large operations.
    Stalls {
        /// Servers, by their known names, unless the user selects others.
        servers: &'static [&'static str],
        /// Reads per second.
        read_rate: f64,
        /// Repetitions.
        round_count: usize,
        /// Large operations.
        cases: &'static [StallCase],
    },
    /// Reads while the store grows from empty.
    Growth {
        /// Keys written.
        key_count: u64,
        /// Repetitions.
        round_count: usize,
        /// Reads per second.
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
    /// Name of a workload.
    pub workload: &'static str,
    /// Outstanding requests per connection.
    pub pipeline: u64,
}

/// A fill whose resident memory is measured.
#[derive(Debug)]
pub struct MemoryCase {
    /// Name in the report.
    pub name: &'static str,
    /// Name of the workload whose fill is used.
    pub workload: &'static str,
    /// Keys, unless the workload prescribes the number.
    pub key_count: u64,
}

/// Start options of a server variant.
#[derive(Debug)]
pub struct Variant {
    /// Name in the report.
    pub name: &'static str,
    /// `{threads}`
    pub thread_count: usize,
    /// `{io}`
    pub io_backend: &'static str,
}

/// A mode of operation, and the load measured in it.
#[derive(Debug)]
pub struct Mode {
    /// Name in the report.
    pub name: &'static str,
    /// Words appended to the servers' command lines.
    pub directives: &'static str,
    /// Login of connections.
    pub login: ModeLogin,
    /// Number of additional idle connections, and the request that each of them sends first.
    pub idle_connections: Option<(usize, &'static str)>,
    /// Prefix of every key.
    pub key_prefix: &'static str,
    /// Command that writes each key once before the measurement.
    pub fill: Option<&'static str>,
    /// Measured commands, with relative frequencies.
    pub commands: &'static [(u32, &'static str)],
    /// Number of connections.
    pub connection_count: usize,
    /// Outstanding requests per connection.
    pub pipeline: u64,
    /// Distinct keys.
    pub key_count: u64,
    /// Bytes of a value, in command-line syntax.
    pub value_size: &'static str,
    /// Key distribution.
    pub distribution: Distribution,
    /// Highest acceptable ratio to the baseline's CPU time per request.
    pub goal: f64,
}

/// Login of the connections of a mode.
#[derive(Clone, Copy, Debug)]
pub struct ModeLogin {
    /// AUTH.
    pub password: Option<&'static str>,
    /// SELECT.
    pub database: u32,
    /// HELLO 3.
    pub resp3: bool,
}

/// A large operation, measured by a concurrent reader.
#[derive(Debug)]
pub struct StallCase {
    /// Name in the report.
    pub name: &'static str,
    /// Words appended to the servers' command lines.
    pub directives: &'static str,
    /// Commands sent before the measurement, each with its count, which is also its number of keys.
    pub setup: &'static [(u64, &'static str)],
    /// Keys written before the measurement.
    pub key_count: u64,
    /// New keys written per second during the measurement.
    pub write_rate: Option<f64>,
    /// A request that one connection sends as fast as it can during the measurement.
    pub flood: Option<&'static str>,
    /// Large requests during the measurement.
    pub disturbance: Option<Disturbance>,
    /// Length of the window.
    pub length_ms: u64,
}

/// Large requests.
#[derive(Debug)]
pub struct Disturbance {
    /// The request.
    pub command: &'static str,
    /// Number of requests.
    pub count: u64,
    /// Requests per second.
    pub rate: f64,
}

/// All suites.
pub static SUITES: &[&Suite] = &[&headline::SUITE];

/// Returns the suite with this name.
pub fn by_name(name: &str) -> Result<&'static Suite, BenchError> {
    SUITES.iter().find(|suite| suite.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        BenchError::usage(format!("unknown suite '{name}'; available: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::known;
    use crate::values::ValueSize;
    use crate::workload::Workload;

    #[test]
    fn suites_name_existing_servers_and_cases() {
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
