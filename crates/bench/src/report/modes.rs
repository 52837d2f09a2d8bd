//! The tables of modes and of stalls.

use crate::outcome::{ModeOutcome, ServerOutcome, StallOutcome};
use crate::report::figures::{self, NONE};
use crate::report::tables::Table;
use crate::sample::Measure;

/// Returns a table with one row per mode: the CPU time per request on each server, and its ratio to the
/// baseline.
pub fn modes_table(outcomes: &[ModeOutcome]) -> Table {
    let Some(first) = outcomes.first() else {
        return Table::new("CPU time per request in each mode", "", &["mode"]);
    };
    let servers: Vec<&str> = first.case.server_outcomes.iter().map(|one| one.server.as_str()).collect();
    let baseline = first.case.baselines.first().map_or("", String::as_str);
    let compared: Vec<&str> = servers.iter().copied().filter(|server| *server != baseline).collect();
    let columns: Vec<String> = servers.iter().map(|server| format!("{server} µs")).collect();
    let ratios: Vec<String> = compared.iter().map(|server| format!("{server} ratio")).collect();
    let mut header = vec!["mode"];
    header.extend(columns.iter().map(String::as_str));
    header.extend(ratios.iter().map(String::as_str));
    header.extend(["goal", "p99.9 ratio", "met"]);
    let about =
        format!("CPU time of the server per request, and its ratio to {baseline} with a 95 % interval.");
    let mut table = Table::new("CPU time per request in each mode", about, &header);
    for ModeOutcome { case, goal } in outcomes {
        let of = |server: &str| case.server_outcomes.iter().find(|one| one.server == server);
        let cost = |one: &ServerOutcome| figures::median(one.estimate(Measure::ServerCpu));
        let ratio = |server: &&str| of(server).and_then(|one| one.ratio(Measure::ServerCpu, baseline));
        let first_ratio = compared.first().and_then(ratio);
        let tail = compared.first().and_then(|server| of(server)?.ratio(Measure::P999, baseline));
        let mut row = vec![case.name.clone()];
        row.extend(servers.iter().map(|server| of(server).map_or_else(|| NONE.to_owned(), cost)));
        row.extend(compared.iter().map(|server| figures::ratio(ratio(server))));
        row.push(format!("{goal:.2}"));
        row.push(tail.map_or_else(|| NONE.to_owned(), |tail| figures::significant(tail.median)));
        row.push(
            first_ratio.map_or(NONE, |ratio| if ratio.median <= *goal { "yes" } else { "**no**" }).to_owned(),
        );
        table.rows.push(row);
    }
    table
}

/// Returns a table with one row per case and server, over all rounds.
pub fn stalls_table(outcomes: &[StallOutcome]) -> Table {
    let header = [
        "case",
        "server",
        "slower than 3 ms",
        "in each round",
        "worst ms",
        "p99.9 ms",
        "late",
        "largest lag ms",
        "writes/s",
        "took ms",
    ];
    let about = "Took: the longest duration of the large operation.";
    let mut table = Table::new("Reads slower than 3 ms", about, &header);
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for outcome in outcomes {
        let key = (outcome.name.as_str(), outcome.server.as_str());
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let rounds: Vec<&StallOutcome> =
            outcomes.iter().filter(|one| (one.name.as_str(), one.server.as_str()) == key).collect();
        let sum = |count: fn(&StallOutcome) -> u64| rounds.iter().map(|one| count(one)).sum::<u64>();
        let max = |ns: fn(&StallOutcome) -> u64| rounds.iter().map(|one| ns(one)).max().unwrap_or(0);
        let millis = |ns: u64| figures::significant(ns as f64 / 1e6);
        let each: Vec<String> = rounds.iter().map(|one| one.slow_count.to_string()).collect();
        let writes = rounds.iter().filter_map(|one| one.writes_per_second).reduce(f64::min);
        let took = rounds.iter().filter_map(|one| one.disturbance_ns_max).max();
        table.rows.push(vec![
            outcome.name.clone(),
            outcome.server.clone(),
            sum(|one| one.slow_count).to_string(),
            each.join(" "),
            millis(max(|one| one.latency.max_ns)),
            millis(max(|one| one.latency.p999_ns)),
            sum(|one| one.late_count).to_string(),
            millis(max(|one| one.lag.max_ns)),
            writes.map_or_else(|| NONE.to_owned(), |rate| figures::grouped(rate as u64)),
            took.map_or_else(|| NONE.to_owned(), millis),
        ]);
    }
    table
}
