//! `docs/metrics.md` is generated from the table of figures: `UPDATE_EXPECT=1 cargo test -p server --lib reference` writes it, and
//! the test fails while the page differs from the table. Also the rules of metric names, and the metrics of the dashboard for
//! Grafana.

use std::collections::HashSet;
use std::fmt::Write;

use expect_test::expect_file;

use super::SECTIONS;
use super::figure::{Figure, Kind};
use super::metric_name::PREFIX;
use super::metrics::{Family, FamilyKind, OfFigure, is_exported};

const INTRODUCTION: &str = include_str!("metrics_introduction.md");

/// The metrics of redis_exporter that its dashboards use, and what to write instead; `None`: there is nothing like it.
const EXPORTER_NAMES: &[(&str, Option<&str>)] = &[
    ("redis_up", Some("up")),
    ("redis_uptime_in_seconds", Some("broadloom_uptime_seconds")),
    ("redis_instance_info", Some("broadloom_server_info")),
    ("redis_connected_clients", Some("broadloom_connected_clients")),
    ("redis_blocked_clients", Some("broadloom_blocked_clients")),
    ("redis_tracking_clients", Some("broadloom_tracking_clients")),
    ("redis_config_maxclients", Some("broadloom_maxclients")),
    ("redis_rejected_connections_total", Some("broadloom_rejected_connections_total")),
    ("redis_connections_received_total", Some("broadloom_connections_received_total")),
    ("redis_memory_used_bytes", Some("broadloom_used_memory_bytes")),
    ("redis_memory_used_rss_bytes", Some("broadloom_used_memory_rss_bytes")),
    ("redis_memory_used_peak_bytes", Some("broadloom_used_memory_peak_bytes")),
    ("redis_memory_used_overhead_bytes", Some("broadloom_used_memory_overhead_bytes")),
    ("redis_memory_used_dataset_bytes", Some("broadloom_used_memory_dataset_bytes")),
    ("redis_memory_used_lua_bytes", Some("broadloom_used_memory_lua_bytes")),
    ("redis_memory_max_bytes", Some("broadloom_maxmemory_bytes")),
    ("redis_mem_fragmentation_ratio", Some("broadloom_mem_fragmentation_ratio")),
    ("redis_commands_processed_total", Some("broadloom_commands_processed_total")),
    ("redis_commands_total", Some("broadloom_cmdstat_calls_total")),
    ("redis_commands_duration_seconds_total", Some("broadloom_cmdstat_seconds_total")),
    ("redis_commands_failed_calls_total", Some("broadloom_cmdstat_failed_calls_total")),
    ("redis_commands_rejected_calls_total", Some("broadloom_cmdstat_rejected_calls_total")),
    ("redis_commands_latencies_usec_bucket", Some("broadloom_command_duration_seconds_bucket")),
    ("redis_latency_percentiles_usec", Some("broadloom_command_duration_seconds_bucket")),
    ("redis_errors_total", Some("broadloom_errorstat_total")),
    ("redis_net_input_bytes_total", Some("broadloom_net_input_bytes_total")),
    ("redis_net_output_bytes_total", Some("broadloom_net_output_bytes_total")),
    ("redis_keyspace_hits_total", Some("broadloom_keyspace_hits_total")),
    ("redis_keyspace_misses_total", Some("broadloom_keyspace_misses_total")),
    ("redis_expired_keys_total", Some("broadloom_expired_keys_total")),
    ("redis_evicted_keys_total", Some("broadloom_evicted_keys_total")),
    ("redis_db_keys", Some("broadloom_db_keys")),
    ("redis_db_keys_expiring", Some("broadloom_db_expires")),
    ("redis_db_avg_ttl_seconds", Some("broadloom_db_avg_ttl_seconds")),
    ("redis_pubsub_channels", Some("broadloom_pubsub_channels")),
    ("redis_pubsub_patterns", Some("broadloom_pubsub_patterns")),
    ("redis_cpu_sys_seconds_total", Some("broadloom_used_cpu_sys_seconds_total")),
    ("redis_cpu_user_seconds_total", Some("broadloom_used_cpu_user_seconds_total")),
    ("redis_rdb_last_bgsave_status", Some("broadloom_rdb_last_bgsave_status")),
    ("redis_rdb_last_save_timestamp_seconds", Some("broadloom_rdb_last_save_timestamp_seconds")),
    ("redis_rdb_changes_since_last_save", Some("broadloom_rdb_changes_since_last_save")),
    ("redis_aof_enabled", Some("broadloom_aof_enabled")),
    ("redis_aof_last_write_status", Some("broadloom_aof_last_write_status")),
    ("redis_aof_current_size_bytes", Some("broadloom_aof_current_size_bytes")),
    ("redis_loading_dump_file", Some("broadloom_loading")),
    ("redis_connected_slaves", Some("broadloom_connected_slaves")),
    ("redis_connected_slave_lag_seconds", Some("broadloom_slave_lag_seconds")),
    ("redis_connected_slave_offset_bytes", Some("broadloom_slave_offset_bytes")),
    ("redis_master_link_up", Some("broadloom_master_link_status")),
    ("redis_master_repl_offset", Some("broadloom_master_repl_offset_bytes")),
    ("redis_slave_repl_offset", Some("broadloom_slave_repl_offset_bytes")),
    ("redis_slowlog_length", None),
    ("redis_key_size", None),
    ("redis_cluster_enabled", None),
];

/// Metrics that are not a figure of the table.
const OTHERS: &[&str] = &["up", "broadloom_command_duration_seconds_bucket"];

fn families() -> Vec<(&'static Figure, Family)> {
    let exported = SECTIONS.iter().flat_map(|section| section.figures).filter(|figure| is_exported(figure));
    exported
        .flat_map(|figure| OfFigure::new(figure).families.into_iter().map(move |family| (figure, family)))
        // Text without labels is in the information of its section.
        .filter(|(figure, family)| {
            family.kind != FamilyKind::Info
                || figure.labels.is_some()
                || matches!(figure.kind, Kind::Record(_))
        })
        .collect()
}

#[test]
fn the_page_of_metrics_matches_the_table() {
    let mut page = INTRODUCTION.to_owned();
    let mut line = |line: std::fmt::Arguments<'_>| writeln!(page, "{line}").expect("a string grows");
    line(format_args!("\n## Metrics\n\n| metric | kind | figure of INFO |\n|---|---|---|"));
    for (figure, family) in families() {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Info => "information",
        };
        line(format_args!("| `{}` | {kind} | `{}` |", family.sample_name(), figure.name));
    }
    line(format_args!(
        "\n## From redis_exporter\n\nWhat its dashboards use, and what to write instead.\n\n| redis_exporter | Broadloom |\n|---|---|"
    ));
    for (theirs, ours) in EXPORTER_NAMES {
        let ours = ours.map_or_else(|| "not there".to_owned(), |ours| format!("`{ours}`"));
        line(format_args!("| `{theirs}` | {ours} |"));
    }
    expect_file!["../../../../../docs/metrics.md"].assert_eq(&page);
}

/// The rules of `promtool check metrics`.
#[test]
fn names_of_metrics_follow_the_conventions() {
    let abbreviated =
        ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d", "usec", "perc"];
    let mut seen = HashSet::new();
    for (figure, family) in families() {
        let name = family.sample_name();
        let of = figure.name;
        assert!(seen.insert(family.name.clone()), "{name} of {of} is there twice");
        assert!(name.chars().all(|char| matches!(char, 'a'..='z' | '0'..='9' | '_')), "{name}");
        assert!(
            !name.split('_').any(|word| abbreviated.contains(&word)),
            "{name} of {of}: an abbreviated unit"
        );
        let is_counter = family.kind == FamilyKind::Counter;
        assert_eq!(is_counter, name.ends_with("_total"), "{name} of {of}");
        assert!(!["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name} of {of}");
    }
}

#[test]
fn metrics_named_in_documents_exist() {
    let families = families();
    let of_sections = SECTIONS.iter().map(|section| format!("{PREFIX}_{}_info", section.name));
    let known: HashSet<String> = families
        .iter()
        .map(|(_, family)| family.sample_name())
        .chain(of_sections)
        .chain(OTHERS.iter().map(|name| (*name).to_owned()))
        .collect();
    for (theirs, ours) in EXPORTER_NAMES {
        assert!(
            ours.is_none_or(|ours| known.contains(ours)),
            "{ours:?}, which {theirs} leads to, does not exist"
        );
    }
    let dashboard = include_str!("../../../../../packaging/grafana/broadloom.json");
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let names = dashboard.split(|char| !is_of_name(char)).filter(|word| word.starts_with("broadloom_"));
    let names: HashSet<&str> = names.collect();
    assert!(names.len() > 20, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "the dashboard for Grafana uses what does not exist: {missing:?}");
}
