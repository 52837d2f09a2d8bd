//! One table of [`Figure`](figure::Figure)s in sections, and what is made from it: the text of `INFO`, metrics and JSON.
//!
//! | file | holds |
//! |---|---|
//! | `sections/` | the figures: each with its name, kind, unit, help, and how it is read |
//! | `figure.rs` | what a figure is, and how a row is written |
//! | `labels.rs` | the labels of figures with several lines, such as one for each command |
//! | `gathered.rs` | what figures are read from: published figures of the workers, without stopping any |
//! | `text.rs` | the text of `INFO` |
//! | `metrics.rs`, `metric_name.rs` | the metrics for Prometheus, and their names |
//! | `json.rs` | all figures as JSON |
//! | `reference.rs`, `metrics_reference.rs` | `docs/info.md` and `docs/metrics.md`, which tests keep equal to the table |
//!
//! To add a figure, add a row to its section, and regenerate the page. Start reading at [`SECTIONS`].

mod figure;
mod gathered;
mod json;
mod labels;
mod metric_name;
mod metrics;
#[cfg(test)]
mod metrics_reference;
#[cfg(test)]
mod reference;
mod sections;
mod text;

pub use sections::commands::{all_durations, histogram, percentile_ns};

use commands::word::Word;
use dashboard::MetricsFormat;

use crate::shared::Shared;
use figure::Section;
use gathered::Gathered;
use sections::{clients, keyspace, memory, persistence, replication, server, stats, tls, workers};
use text::Text;

/// All sections, in the order of the text.
static SECTIONS: &[Section] = &[
    always("server", "Server", server::FIGURES),
    with_all("tls", "TLS", tls::FIGURES),
    always("clients", "Clients", clients::FIGURES),
    always("memory", "Memory", memory::FIGURES),
    always("persistence", "Persistence", persistence::FIGURES),
    always("threads", "Threads", workers::THREADS),
    always("stats", "Stats", stats::FIGURES),
    always("replication", "Replication", replication::REPLICATION),
    always("cpu", "CPU", workers::CPU),
    always("modules", "Modules", replication::MODULES),
    with_all("commandstats", "Commandstats", sections::commands::COMMAND_STATS),
    always("errorstats", "Errorstats", sections::commands::ERROR_STATS),
    with_all("latencystats", "Latencystats", sections::commands::LATENCY_STATS),
    always("cluster", "Cluster", replication::CLUSTER),
    always("keyspace", "Keyspace", keyspace::KEYSPACE),
    always("keysizes", "Keysizes", keyspace::KEY_SIZES),
    by_name_only("debug", "Debug", workers::DEBUG),
    by_name_only("workers", "Workers", workers::WORKERS),
];

/// A section that plain `INFO` shows.
const fn always(name: &'static str, title: &'static str, figures: &'static [figure::Figure]) -> Section {
    Section { name, title, in_default: true, in_all: true, figures }
}

/// A section that `INFO all` shows, but plain `INFO` does not.
const fn with_all(name: &'static str, title: &'static str, figures: &'static [figure::Figure]) -> Section {
    Section { name, title, in_default: false, in_all: true, figures }
}

/// A section that `INFO` shows only by its name.
const fn by_name_only(
    name: &'static str,
    title: &'static str,
    figures: &'static [figure::Figure],
) -> Section {
    Section { name, title, in_default: false, in_all: false, figures }
}

/// All figures as metrics.
pub fn metrics(shared: &Shared, format: MetricsFormat) -> String {
    metrics::text(SECTIONS, &Gathered::new(shared, 0), format)
}

/// All figures as JSON.
pub fn json(shared: &Shared) -> String {
    json::text(SECTIONS, &Gathered::new(shared, 0))
}

/// Returns the sections with these names; with no names, the default ones.
pub fn text(shared: &Shared, names: &[&[u8]]) -> String {
    let is_named = |wanted: &str| names.iter().any(|name| name.eq_token(wanted));
    let all = is_named("everything") || is_named("all");
    let default = names.is_empty() || is_named("default");
    let mut text = Text::new();
    let gathered = Gathered::new(shared, text.allocated_size());
    for section in SECTIONS {
        let shown = is_named(section.name)
            || (section.name == "modules" && is_named("module_list"))
            || (default && section.in_default)
            || (all && section.in_all);
        if shown {
            text.section(section, &gathered);
        }
    }
    text.into_string()
}
