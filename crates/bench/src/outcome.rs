//! The result of a session: the data behind the table, JSON, CSV and Markdown.

use serde::Serialize;

use crate::case::{Case, ReportedSettings};
use crate::machine::Machine;
use crate::sample::{LatencySummary, Measure, Sample};
use crate::statistics::Estimate;

/// All measurements of a session.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Title.
    pub title: String,
    /// Version of the benchmark.
    pub version: &'static str,
    /// Start time, in seconds since the Unix epoch.
    pub started_unix_s: u64,
    /// The machine.
    pub machine: Machine,
    /// The servers.
    pub servers: Vec<ServerInfo>,
    /// The measured parts, in order.
    pub sections: Vec<SectionOutcome>,
    /// Facts a reader must know: errors, excluded servers, unreached rates.
    pub remarks: Vec<String>,
    /// Failed measurements.
    pub failures: Vec<String>,
    /// Total number of error replies.
    pub error_count: u64,
}

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerInfo {
    /// Name in the tables.
    pub name: String,
    /// Version reported by the server.
    pub version: Option<String>,
    /// Start command, or address of a running server.
    pub origin: String,
    /// Process id, if the server runs on this machine.
    pub pid: Option<u32>,
}

/// One part of a report.
#[derive(Clone, Debug, Serialize)]
pub struct SectionOutcome {
    /// Heading.
    pub title: String,
    /// Description of the measurement.
    pub about: String,
    /// Results.
    pub findings: Findings,
}

/// Results of one section.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Findings {
    /// Servers under the same load.
    Comparison(Vec<CaseOutcome>),
    /// Resident memory.
    Memory(Vec<MemoryOutcome>),
    /// Resident memory of collections.
    Collections(Vec<CollectionMemory>),
    /// Reads while the store grows.
    Growth(Vec<GrowthOutcome>),
    /// Servers in several modes.
    Modes(Vec<ModeOutcome>),
    /// Reads beside a large operation.
    Stalls(Vec<StallOutcome>),
}

/// All servers in one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseOutcome {
    /// Name of the case.
    pub name: String,
    /// The load.
    pub settings: ReportedSettings,
    /// Whether a fill has written the keys, so that a null reply is unexpected.
    pub is_filled: bool,
    /// Names of the servers that the others are compared with.
    pub baselines: Vec<String>,
    /// Each server.
    pub server_outcomes: Vec<ServerOutcome>,
}

/// One server in one case.
#[derive(Clone, Debug, Serialize)]
pub struct ServerOutcome {
    /// The server's name.
    pub server: String,
    /// All rounds.
    pub samples: Vec<Sample>,
    /// Median and interval of each measure.
    pub estimates: Vec<(Measure, Estimate)>,
    /// The estimates as ratios to each baseline, computed round by round.
    pub ratios: Vec<Ratio>,
}

/// A measure relative to a baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The server compared with.
    pub baseline: String,
    /// The compared measure.
    pub measure: Measure,
    /// This server's value divided by the baseline's.
    pub ratio: Estimate,
}

/// Resident memory of one server after a fill.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryOutcome {
    /// The server's name.
    pub server: String,
    /// Keys written.
    pub key_count: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value, as on the command line.
    pub value_size: String,
    /// Bytes of key and value, on average.
    pub payload_size_mean: f64,
    /// Resident bytes before the fill.
    pub resident_size_before: u64,
    /// Resident bytes after the fill.
    pub resident_size_after: u64,
    /// Growth divided by the number of keys.
    pub resident_size_per_key: f64,
}

/// Resident memory of one server after a fill with collections.
#[derive(Clone, Debug, Serialize)]
pub struct CollectionMemory {
    /// The server's name.
    pub server: String,
    /// Kind of collection.
    pub name: String,
    /// Fill command.
    pub command: String,
    /// Number of times the command was sent.
    pub request_count: u64,
    /// Resident bytes before.
    pub resident_size_before: u64,
    /// Resident bytes after.
    pub resident_size_after: u64,
}

impl CollectionMemory {
    /// Converts the measurement of a case.
    #[must_use]
    pub fn of(name: &str, case: &Case, memory: &MemoryOutcome) -> Self {
        Self {
            server: memory.server.clone(),
            name: name.to_owned(),
            command: case.workload.fill.clone().unwrap_or_default(),
            request_count: case.load.key_count * case.workload.own.fill_times,
            resident_size_before: memory.resident_size_before,
            resident_size_after: memory.resident_size_after,
        }
    }

    /// Returns the bytes that the fill added.
    #[must_use]
    pub const fn growth(&self) -> u64 {
        self.resident_size_after.saturating_sub(self.resident_size_before)
    }
}

/// All servers in one mode.
#[derive(Clone, Debug, Serialize)]
pub struct ModeOutcome {
    /// The figures.
    pub case: CaseOutcome,
    /// Highest acceptable ratio of CPU time per request.
    pub goal: f64,
}

/// Reads at a fixed rate during a large operation.
#[derive(Clone, Debug, Serialize)]
pub struct StallOutcome {
    /// The server's name.
    pub server: String,
    /// Name of the large operation.
    pub name: String,
    /// Repetition, from 1.
    pub round: usize,
    /// Number of reads.
    pub read_count: u64,
    /// Reads that took longer than 3 ms from their intended time.
    pub slow_count: u64,
    /// Latency from the intended send time of a read to its reply.
    pub latency: LatencySummary,
    /// Reads that the load generator sent more than 3 ms late.
    pub late_count: u64,
    /// Delay from the intended to the actual send time.
    pub lag: LatencySummary,
    /// Longest duration of the large operation.
    pub disturbance_ns_max: Option<u64>,
    /// Writes answered per second.
    pub writes_per_second: Option<f64>,
}

/// Reads at a fixed rate while another connection fills the store.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthOutcome {
    /// The server's name.
    pub server: String,
    /// Repetition, from 1.
    pub round: usize,
    /// Keys written during the reads.
    pub key_count: u64,
    /// Duration of the fill.
    pub fill_seconds: f64,
    /// Reads per second.
    pub read_rate: f64,
    /// Latency from the intended send time of a read to its reply.
    pub latency: LatencySummary,
    /// The generator's own delay: from the intended to the actual send time.
    pub lag: LatencySummary,
    /// Error replies.
    pub error_count: u64,
    /// Reads without a reply at the end.
    pub unanswered_count: u64,
}

impl ServerOutcome {
    /// Computes the estimates, and the ratios to each of `baselines` that is another server.
    #[must_use]
    pub fn new(server: &str, samples: Vec<Sample>, baselines: &[(String, Vec<Sample>)]) -> Self {
        let series = |samples: &[Sample], measure: Measure| -> Vec<f64> {
            samples.iter().filter_map(|sample| measure.of(sample)).collect()
        };
        let estimates = Measure::ALL
            .into_iter()
            .filter_map(|measure| Some((measure, Estimate::of(&series(&samples, measure))?)))
            .collect();
        let mut ratios = Vec::new();
        for (baseline, theirs) in baselines.iter().filter(|(name, _)| name != server) {
            for measure in Measure::ALL {
                let of_same_round = |ours: &Sample| {
                    let theirs = theirs.iter().find(|theirs| theirs.round == ours.round)?;
                    Some((measure.of(ours)?, measure.of(theirs)?))
                };
                let (above, below): (Vec<f64>, Vec<f64>) = samples.iter().filter_map(of_same_round).unzip();
                let ratio = Estimate::of_ratios(&above, &below);
                ratios.extend(ratio.map(|ratio| Ratio { baseline: baseline.clone(), measure, ratio }));
            }
        }
        Self { server: server.to_owned(), samples, estimates, ratios }
    }

    /// Returns the estimate of one measure.
    #[must_use]
    pub fn estimate(&self, measure: Measure) -> Option<Estimate> {
        self.estimates.iter().find(|(of, _)| *of == measure).map(|(_, estimate)| *estimate)
    }

    /// Returns one measure relative to a baseline.
    #[must_use]
    pub fn ratio(&self, measure: Measure, baseline: &str) -> Option<Estimate> {
        let mut ratios = self.ratios.iter();
        ratios.find(|ratio| ratio.measure == measure && ratio.baseline == baseline).map(|ratio| ratio.ratio)
    }

    /// Returns the error replies of all rounds.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.samples.iter().map(|sample| sample.error_count).sum()
    }
}
