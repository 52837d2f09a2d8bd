//! The tables of a report, independent of the output format.

use crate::outcome::{
    CaseOutcome, CollectionMemory, Findings, GrowthOutcome, MemoryOutcome, Report, SectionOutcome,
    ServerOutcome,
};
use crate::report::figures::{self, NONE};
use crate::report::modes::{modes_table, stalls_table};
use crate::sample::Measure;

/// A title, a description, a header and rows of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Conditions of the measurement; may be empty.
    pub about: String,
    /// Column headings.
    pub header: Vec<String>,
    /// Rows, each with as many cells as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>, about: impl Into<String>, header: &[&str]) -> Self {
        let header = header.iter().map(|&text| text.to_owned()).collect();
        Self { title: title.into(), about: about.into(), header, rows: Vec::new() }
    }
}

/// Returns the tables of one section.
#[must_use]
pub fn of_section(section: &SectionOutcome) -> Vec<Table> {
    match &section.findings {
        Findings::Comparison(cases) => {
            let mut tables = overviews(cases);
            tables.extend(cases.iter().map(case_table));
            tables
        }
        Findings::Memory(outcomes) => vec![memory_table(outcomes)],
        Findings::Collections(outcomes) => vec![collections_table(outcomes)],
        Findings::Growth(outcomes) => vec![growth_table(outcomes)],
        Findings::Modes(outcomes) => vec![modes_table(outcomes)],
        Findings::Stalls(outcomes) => vec![stalls_table(outcomes)],
    }
}

/// Returns the table of a report's servers.
#[must_use]
pub fn of_servers(report: &Report) -> Table {
    let mut table = Table::new("Servers", "", &["server", "version", "origin"]);
    for server in &report.servers {
        let version = server.version.clone().unwrap_or_else(|| NONE.to_owned());
        table.rows.push(vec![server.name.clone(), version, server.origin.clone()]);
    }
    table
}

/// For several cases, returns the ratio of every server to each baseline in cost and throughput, and the
/// ratio of the first server in every measure.
fn overviews(cases: &[CaseOutcome]) -> Vec<Table> {
    let [first_case, _, ..] = cases else {
        return Vec::new();
    };
    let servers = first_case.server_outcomes.iter().map(|server_outcome| server_outcome.server.as_str());
    let mut tables = Vec::new();
    for baseline in &first_case.baselines {
        let others: Vec<&str> = servers.clone().filter(|server| server != baseline).collect();
        for (what, measure) in OVERVIEW_MEASURES {
            let columns: Vec<_> = others.iter().map(|&server| (server, server, measure)).collect();
            tables.push(ratio_table(format!("{what} relative to {baseline}"), cases, baseline, &columns));
        }
    }
    let subject = servers.clone().next().unwrap_or_default();
    for baseline in first_case.baselines.iter().filter(|baseline| *baseline != subject) {
        let columns = RATIO_MEASURES.map(|(heading, measure)| (heading, subject, measure));
        tables.push(ratio_table(format!("{subject} relative to {baseline}"), cases, baseline, &columns));
    }
    tables.retain(|table| table.rows.iter().flat_map(|row| &row[1..]).any(|cell| cell != NONE));
    tables
}

/// Measures compared for all servers.
const OVERVIEW_MEASURES: [(&str, Measure); 2] =
    [("CPU time per request", Measure::ServerCpu), ("Requests per second", Measure::Throughput)];

/// Measures shown as ratios for the first server. The ratio of a maximum is meaningless.
const RATIO_MEASURES: [(&str, Measure); 5] = [
    ("CPU/request", Measure::ServerCpu),
    ("requests/s", Measure::Throughput),
    ("p50", Measure::P50),
    ("p99", Measure::P99),
    ("p99.9", Measure::P999),
];

/// Returns a table with one row per case, and one column per heading, server and measure.
fn ratio_table(
    title: String,
    cases: &[CaseOutcome],
    baseline: &str,
    columns: &[(&str, &str, Measure)],
) -> Table {
    let header: Vec<&str> =
        ["case"].into_iter().chain(columns.iter().map(|(heading, ..)| *heading)).collect();
    let mut table = Table::new(title, "Median of the ratios of all rounds, with its 95 % interval.", &header);
    for case in cases {
        let cell = |&(_, server, measure): &(&str, &str, Measure)| {
            let server_outcome =
                case.server_outcomes.iter().find(|server_outcome| server_outcome.server == server);
            figures::ratio(server_outcome.and_then(|server_outcome| server_outcome.ratio(measure, baseline)))
        };
        table.rows.push([case.name.clone()].into_iter().chain(columns.iter().map(cell)).collect());
    }
    table
}

fn case_table(case: &CaseOutcome) -> Table {
    let settings = &case.settings;
    let rate = settings.rate.map(|rate| format!(", {rate} requests/s (open loop)")).unwrap_or_default();
    let about = format!(
        "{}: {} connections, pipeline {}, {} keys of {} bytes ({}), values of {} bytes{rate}",
        settings.commands.join(" | "),
        settings.connection_count,
        settings.pipeline,
        figures::grouped(settings.key_count),
        settings.key_size,
        settings.distribution,
        settings.value_size,
    );
    let baselines: Vec<String> = case.baselines.iter().map(|baseline| format!("CPU / {baseline}")).collect();
    let mut header = vec!["server", Measure::ServerCpu.title()];
    header.extend(baselines.iter().map(String::as_str));
    header.extend(Measure::ALL[1..].iter().map(|measure| measure.title()));
    header.extend(["busy server/client", "errors"]);
    let mut table = Table::new(&case.name, about, &header);
    for server_outcome in &case.server_outcomes {
        let estimate = |measure| figures::estimate(measure, server_outcome.estimate(measure));
        let median = |measure| figures::median(server_outcome.estimate(measure));
        let mut row = vec![server_outcome.server.clone(), estimate(Measure::ServerCpu)];
        row.extend(
            case.baselines
                .iter()
                .map(|baseline| figures::ratio(server_outcome.ratio(Measure::ServerCpu, baseline))),
        );
        row.push(estimate(Measure::Throughput));
        row.extend([Measure::P50, Measure::P99, Measure::P999].map(median));
        row.extend([longest(server_outcome), busy(server_outcome), errors(server_outcome)]);
        table.rows.push(row);
    }
    table
}

/// A maximum is not estimated: the longest latency of all rounds is shown.
fn longest(server_outcome: &ServerOutcome) -> String {
    server_outcome
        .samples
        .iter()
        .map(|sample| sample.latency.max_ns)
        .max()
        .map_or_else(|| NONE.to_owned(), figures::micros)
}

fn busy(server_outcome: &ServerOutcome) -> String {
    let mean = |values: Vec<f64>| {
        if values.is_empty() {
            NONE.to_owned()
        } else {
            format!("{:.2}", values.iter().sum::<f64>() / values.len() as f64)
        }
    };
    let server = server_outcome.samples.iter().filter_map(|sample| sample.server_cpus_busy).collect();
    let client = server_outcome.samples.iter().filter_map(|sample| sample.client_cpus_busy).collect();
    format!("{} / {}", mean(server), mean(client))
}

fn errors(server_outcome: &ServerOutcome) -> String {
    match server_outcome.error_count() {
        0 => "0".to_owned(),
        count => format!("**{}**", figures::grouped(count)),
    }
}

fn memory_table(outcomes: &[MemoryOutcome]) -> Table {
    let header =
        ["server", "keys", "value bytes", "RSS before", "RSS after", "bytes/key", "overhead bytes/key"];
    let mut table = Table::new("Resident memory per key", "(RSS after - RSS before) / keys", &header);
    for outcome in outcomes {
        let mib = |size: u64| format!("{:.1} MiB", size as f64 / (1 << 20) as f64);
        table.rows.push(vec![
            outcome.server.clone(),
            figures::grouped(outcome.key_count),
            outcome.value_size.clone(),
            mib(outcome.resident_size_before),
            mib(outcome.resident_size_after),
            format!("{:.1}", outcome.resident_size_per_key),
            format!("{:.1}", outcome.resident_size_per_key - outcome.payload_size_mean),
        ]);
    }
    table
}

fn collections_table(outcomes: &[CollectionMemory]) -> Table {
    let header = ["filled with", "server", "RSS before", "RSS after", "growth", "ratio to the best other"];
    let mut table = Table::new("Resident memory of collections", "", &header);
    let mut commands: Vec<String> = Vec::new();
    for outcome in outcomes {
        let mib = |size: u64| format!("{:.1} MiB", size as f64 / (1 << 20) as f64);
        let others =
            outcomes.iter().filter(|other| other.name == outcome.name && other.server != outcome.server);
        let best = others.map(CollectionMemory::growth).min();
        let ratio = best.filter(|&best| best > 0).map(|best| outcome.growth() as f64 / best as f64);
        table.rows.push(vec![
            outcome.name.clone(),
            outcome.server.clone(),
            mib(outcome.resident_size_before),
            mib(outcome.resident_size_after),
            mib(outcome.growth()),
            ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.3}")),
        ]);
        let command = format!(
            "{}: {} times {}",
            outcome.name,
            figures::grouped(outcome.request_count),
            outcome.command
        );
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    table.about = commands.join("; ");
    table
}

fn growth_table(outcomes: &[GrowthOutcome]) -> Table {
    let header = [
        "server",
        "round",
        "keys",
        "filled in s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "lag p99.9 µs",
        "lag max µs",
        "errors",
    ];
    let about =
        "Latency counts from the intended send time of each read. Lag: delay of the load generator itself.";
    let mut table = Table::new("Reads while the store grows", about, &header);
    for outcome in outcomes {
        let latency = outcome.latency;
        table.rows.push(vec![
            outcome.server.clone(),
            outcome.round.to_string(),
            figures::grouped(outcome.key_count),
            format!("{:.1}", outcome.fill_seconds),
            figures::micros(latency.p50_ns),
            figures::micros(latency.p99_ns),
            figures::micros(latency.p999_ns),
            figures::micros(latency.max_ns),
            figures::micros(outcome.lag.p999_ns),
            figures::micros(outcome.lag.max_ns),
            figures::grouped(outcome.error_count),
        ]);
    }
    table
}
