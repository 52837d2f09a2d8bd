//! `commandstats`, `latencystats` and `errorstats`: commands that ran, by name, and errors by their first word.

use commands::table::CommandId;

use super::super::figure::Unit::{Microseconds, None as NoUnit};
use super::super::figure::{Field, Figure, Value, figures};
use super::super::gathered::Gathered;
use crate::monitoring::statistics::{BUCKET_COUNT, CommandStatistics, bucket_max_ns};
use crate::shared::Shared;

const COMMAND: &[Field] = &[
    Field::counter("calls", NoUnit, "The executions."),
    Field::counter("usec", Microseconds, "The time that they took."),
    Field::gauge("usec_per_call", Microseconds, "The mean duration."),
    Field::counter("rejected_calls", NoUnit, "The calls that were refused before they ran."),
    Field::counter("failed_calls", NoUnit, "The executions that replied with an error."),
];

const ERRORS: &[Field] = &[Field::counter("count", NoUnit, "The error replies.")];

pub static COMMAND_STATS: &[Figure] = figures! { |all|
    /// A command that was called.
    record(COMMAND) "cmdstat_{command}", each Command as label = command(all.shared, label.index);
};

pub static ERROR_STATS: &[Figure] = figures! { |all|
    /// The error replies that begin with a word.
    record(ERRORS) "errorstat_{error}", each ErrorCode as label =
        Value::record([("count", all.errors()[label.index].1.into())]);
};

pub static LATENCY_STATS: &[Figure] = figures! { |all|
    /// The duration of a command within which that percentage of its executions stayed.
    percentiles "latency_percentiles_usec_{command}": Microseconds, each Command as label =
        percentiles(all, label.index), when all.config.latency_tracking;
};

fn per_thread(shared: &Shared, id: usize) -> impl Iterator<Item = &CommandStatistics> {
    let threads = shared.monitoring.statistics.threads();
    threads.filter_map(move |(_, thread)| thread.command_if_used(CommandId(id as u16)))
}

/// The counters of a command, over all workers; `None`: it was never called.
fn command(shared: &Shared, id: usize) -> Option<Value<'static>> {
    let [mut calls, mut ns, mut rejected, mut failed] = [0; 4];
    for command in per_thread(shared, id) {
        calls += command.calls.value();
        ns += command.ns.value();
        rejected += command.rejected.value();
        failed += command.failed.value();
    }
    if calls + rejected + failed == 0 {
        return None;
    }
    let us = ns / 1000;
    Some(Value::record([
        ("calls", calls.into()),
        ("usec", us.into()),
        ("usec_per_call", Value::Mean(us as f64 / calls.max(1) as f64)),
        ("rejected_calls", rejected.into()),
        ("failed_calls", failed.into()),
    ]))
}

/// A command's executions by duration, over all workers.
pub fn histogram(shared: &Shared, id: usize) -> Vec<u64> {
    let mut sum = vec![0; BUCKET_COUNT];
    for command in per_thread(shared, id) {
        for (total, bucket) in sum.iter_mut().zip(command.histogram.get().into_iter().flatten()) {
            *total += bucket.value();
        }
    }
    sum
}

/// Whether durations of a command were ever recorded.
pub fn has_durations(shared: &Shared, id: usize) -> bool {
    per_thread(shared, id).any(|command| command.histogram.get().is_some())
}

/// The executions of all commands by duration, over all workers.
pub fn all_durations(shared: &Shared) -> Vec<u64> {
    let mut sum = vec![0; BUCKET_COUNT];
    for (_, thread) in shared.monitoring.statistics.threads() {
        for command in thread.commands_used() {
            for (total, bucket) in sum.iter_mut().zip(command.histogram.get().into_iter().flatten()) {
                *total += bucket.value();
            }
        }
    }
    sum
}

fn percentiles(all: &Gathered<'_>, id: usize) -> Option<Value<'static>> {
    // Most commands have never run: nothing is summed for them.
    if !has_durations(all.shared, id) {
        return None;
    }
    let histogram = histogram(all.shared, id);
    if histogram.iter().all(|calls| *calls == 0) {
        return None;
    }
    let wanted = all.config.latency_tracking_info_percentiles.0.iter();
    let us = |wanted: f64| percentile_ns(&histogram, wanted) as f64 / 1000.0;
    let pairs = wanted.map(|wanted| (format!("p{wanted}").into(), Value::Thousandths(us(*wanted))));
    Some(Value::Pairs(pairs.collect()))
}

/// The duration within which `percentile` hundredths of the executions stayed, in nanoseconds; 0 without executions.
pub fn percentile_ns(histogram: &[u64], percentile: f64) -> u64 {
    let count: u64 = histogram.iter().sum();
    let wanted = ((percentile / 100.0) * count as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (bucket, calls) in histogram.iter().enumerate() {
        seen += calls;
        if seen >= wanted {
            return bucket_max_ns(bucket);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::statistics::bucket_of;

    #[test]
    fn percentiles_of_a_histogram() {
        let mut histogram = vec![0; BUCKET_COUNT];
        histogram[bucket_of(1_000)] = 98;
        histogram[bucket_of(50_000)] = 1;
        histogram[bucket_of(900_000)] = 1;
        assert!((1_000..1_100).contains(&percentile_ns(&histogram, 50.0)));
        assert!((50_000..54_000).contains(&percentile_ns(&histogram, 99.0)));
        assert!((900_000..960_000).contains(&percentile_ns(&histogram, 100.0)));
        assert_eq!(percentile_ns(&vec![0; BUCKET_COUNT], 50.0), 0);
    }
}
