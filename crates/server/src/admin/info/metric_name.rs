//! The names of metrics, made from those of figures by the conventions of Prometheus: base units, with the unit as the last word,
//! before `total` for counters.

use super::figure::{Kind, Unit};

/// Every metric begins with it.
pub const PREFIX: &str = "broadloom";

/// Figures whose names would be wrong or equal by the rule.
const RENAMED: &[(&str, &str)] = &[
    ("io_threads_active", "several_io_threads_active"),
    ("io_threads_active_count", "io_threads_active"),
    ("current_save_keys_total", "current_save_keys_expected"),
    ("current_eviction_exceeded_time", "eviction_exceeded_time_current"),
    ("current_active_defrag_time", "active_defrag_time_current"),
    ("active_defrag_running", "active_defrag"),
    ("hz", "periodic_work"),
    ("configured_hz", "periodic_work_configured"),
    ("clients_hz", "periodic_work_clients"),
];

/// Words for units in the names of figures. The unit of a metric is its own word.
const UNIT_WORDS: &[&str] =
    &["usec", "ms", "milliseconds", "sec", "seconds", "kbps", "perc", "permille", "bytes", "ratio"];

/// How a unit is exported: its words, and the factor to the base unit as numerator and denominator.
pub fn base_unit(unit: Unit) -> (&'static str, f64, f64) {
    match unit {
        Unit::None => ("", 1.0, 1.0),
        Unit::Bytes => ("bytes", 1.0, 1.0),
        Unit::KibibytesPerSecond => ("bytes_per_second", 1024.0, 1.0),
        Unit::PerSecond => ("per_second", 1.0, 1.0),
        Unit::Days => ("seconds", 86_400.0, 1.0),
        Unit::Seconds => ("seconds", 1.0, 1.0),
        Unit::Milliseconds => ("seconds", 1.0, 1e3),
        Unit::Microseconds => ("seconds", 1.0, 1e6),
        Unit::UnixSeconds => ("timestamp_seconds", 1.0, 1.0),
        Unit::UnixMicroseconds => ("timestamp_seconds", 1.0, 1e6),
        Unit::Percent => ("ratio", 1.0, 100.0),
        Unit::Permille => ("ratio", 1.0, 1000.0),
        Unit::Ratio => ("ratio", 1.0, 1.0),
        Unit::Bits => ("bits", 1.0, 1.0),
    }
}

/// The name of a metric without the suffix of counters. `figure` is the figure's name without its label, and `field` that of the
/// record's field.
pub fn metric_name(figure: &str, field: Option<&str>, kind: Kind, unit: Unit) -> String {
    let renamed = RENAMED.iter().find(|(name, _)| *name == figure).map(|(_, new)| *new);
    let whole = match field {
        Some(field) => format!("{}_{field}", renamed.unwrap_or(figure)),
        None => renamed.unwrap_or(figure).to_owned(),
    };
    let whole = whole.replace("_in_seconds", "").replace("_in_milliseconds", "").replace("_per_sec", "");
    let mut words: Vec<&str> =
        whole.split('_').filter(|word| !word.is_empty() && !UNIT_WORDS.contains(word)).collect();
    if kind == Kind::Counter && words.first() == Some(&"total") {
        words.remove(0);
    }
    if base_unit(unit).0 == "timestamp_seconds" {
        words.retain(|word| *word != "time");
    }
    let is_reserved = match words.last() {
        Some(&"count" | &"sum") => true,
        Some(&"total") => base_unit(unit).0.is_empty() || kind == Kind::Counter,
        _ => false,
    };
    if is_reserved && words.len() > 1 {
        words.pop();
    }
    let mut name = PREFIX.to_owned();
    for word in words.into_iter().chain([base_unit(unit).0]).filter(|word| !word.is_empty()) {
        name.push('_');
        name.push_str(word);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_the_rule() {
        let check = |figure, kind, unit, expected: &str| {
            assert_eq!(metric_name(figure, None, kind, unit), expected);
        };
        check("used_memory", Kind::Gauge, Unit::Bytes, "broadloom_used_memory_bytes");
        check("total_net_input_bytes", Kind::Counter, Unit::Bytes, "broadloom_net_input_bytes");
        check("uptime_in_seconds", Kind::Gauge, Unit::Seconds, "broadloom_uptime_seconds");
        check("rdb_bgsave_in_progress", Kind::Gauge, Unit::None, "broadloom_rdb_bgsave_in_progress");
        check(
            "instantaneous_ops_per_sec",
            Kind::Gauge,
            Unit::PerSecond,
            "broadloom_instantaneous_ops_per_second",
        );
        check(
            "eventloop_duration_sum",
            Kind::Counter,
            Unit::Microseconds,
            "broadloom_eventloop_duration_seconds",
        );
        check("used_memory_peak_perc", Kind::Gauge, Unit::Percent, "broadloom_used_memory_peak_ratio");
        check(
            "loading_start_time",
            Kind::Gauge,
            Unit::UnixSeconds,
            "broadloom_loading_start_timestamp_seconds",
        );
        let field = metric_name("cmdstat", Some("usec"), Kind::Counter, Unit::Microseconds);
        assert_eq!(field, "broadloom_cmdstat_seconds");
    }
}
