//! All figures for Prometheus: its text format, and OpenMetrics.
//!
//! A figure is a family of samples, one for each of its labels. A record has a family for each of its numbers, with its identities
//! as labels. Text is in the labels of `..._info` families: one for each section, and one for each figure that has labels or is
//! a record. A histogram of sizes is a gauge with the smallest size of each class as a label.
//! Percentiles are left out: the durations of commands are a histogram instead.

use std::fmt::Write;

use commands::table::NUMBERED;
use dashboard::MetricsFormat;

use super::figure::{Field, Figure, Kind, Section, Unit, Value};
use super::gathered::Gathered;
use super::labels::Label;
use super::metric_name::{PREFIX, base_unit, metric_name};
use super::sections::commands::{has_durations, histogram};
use crate::monitoring::statistics::bucket_max_ns;

/// Figures of single workers, which the section of workers has for all of them; the days, which other figures repeat; and the bits
/// of an address, which are constant.
const EXCLUDED: &[&str] = &[
    "io_thread_{worker}",
    "used_cpu_sys_main_thread",
    "used_cpu_user_main_thread",
    "used_active_time_main_thread",
    "used_active_time_io_thread_{worker}",
    "used_cpu_sys_io_thread_{worker}",
    "used_cpu_user_io_thread_{worker}",
    "uptime_in_days",
    "arch_bits",
];

/// The limits of the histogram of durations are these powers of two, in nanoseconds: 1 us to 17 s.
const DURATION_POWERS: std::ops::RangeInclusive<u32> = 10..=34;

/// The metrics in this format.
pub fn text(sections: &[Section], gathered: &Gathered<'_>, format: MetricsFormat) -> String {
    let mut text = Text { out: String::with_capacity(64 << 10), format };
    for section in sections {
        families_of(section, gathered).iter().for_each(|family| text.family(family));
    }
    text.durations(gathered);
    if format == MetricsFormat::OpenMetrics {
        text.out.push_str("# EOF\n");
    }
    text.out
}

/// Whether a figure has metrics.
pub fn is_exported(figure: &Figure) -> bool {
    // Constants are in INFO for clients that require the line.
    !EXCLUDED.contains(&figure.name)
        && !figure.help().starts_with("Always")
        && figure.kind != Kind::Percentiles
}

/// Samples with one name.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// Without the suffixes of counters and information.
    pub name: String,
    pub kind: FamilyKind,
    help: String,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
    /// Its value is 1, and its labels are what it shows.
    Info,
}

#[derive(Debug, PartialEq)]
struct Sample {
    labels: Vec<(String, String)>,
    value: String,
}

impl Family {
    /// The name of its samples.
    pub fn sample_name(&self) -> String {
        match self.kind {
            FamilyKind::Counter => format!("{}_total", self.name),
            FamilyKind::Gauge => self.name.clone(),
            FamilyKind::Info => format!("{}_info", self.name),
        }
    }
}

/// The families of a section, without those that have no sample now.
pub fn families_of(section: &Section, gathered: &Gathered<'_>) -> Vec<Family> {
    let mut families = Vec::new();
    let mut texts = Vec::new();
    for figure in section.figures.iter().filter(|figure| is_exported(figure)) {
        let mut of_figure = OfFigure::new(figure);
        let mut read = |label: &Label<'_>| {
            if let Some(value) = (figure.read)(gathered, label) {
                of_figure.add(label, value);
            }
        };
        match figure.labels {
            Some(labels) => labels.visit(gathered, &mut read),
            None => read(&Label::NONE),
        }
        families.extend(of_figure.families.into_iter().filter(|family| !family.samples.is_empty()));
        texts.extend(of_figure.text.map(|text| (figure.name.to_owned(), text)));
    }
    if !texts.is_empty() {
        families.push(Family {
            name: format!("{PREFIX}_{}", section.name),
            kind: FamilyKind::Info,
            help: format!("What the section {} of INFO shows as text.", section.name),
            samples: vec![Sample { labels: texts, value: "1".to_owned() }],
        });
    }
    families
}

/// The families of one figure.
pub struct OfFigure<'f> {
    figure: &'f Figure,
    /// One; for a record, one for each field, then the information.
    pub families: Vec<Family>,
    /// Its text, if it has no labels.
    text: Option<String>,
}

impl<'f> OfFigure<'f> {
    /// The families, without samples.
    pub fn new(figure: &'f Figure) -> Self {
        let name = figure.name_without_label();
        let family = |field: Option<&str>, kind: Kind, unit: Unit, help: &str| Family {
            name: metric_name(&name, field, kind, unit),
            kind: family_kind(kind, figure),
            help: help.to_owned(),
            samples: Vec::new(),
        };
        let families = match figure.kind {
            Kind::Record(fields) => {
                let of_field = |field: &Field| family(Some(field.name), field.kind, field.unit, field.help);
                let is_number = |field: &&Field| !matches!(field.kind, Kind::Text | Kind::Identity);
                let numbers = fields.iter().filter(is_number).map(of_field);
                let is_text = |field: &Field| field.kind == Kind::Text;
                let information =
                    fields.iter().any(is_text).then(|| family(None, Kind::Text, Unit::None, figure.help()));
                numbers.chain(information).collect()
            }
            // Its values are numbers of things, whatever the unit of their sizes.
            kind @ Kind::Histogram => vec![family(None, kind, Unit::None, figure.help())],
            kind => vec![family(None, kind, figure.unit, figure.help())],
        };
        Self { figure, families, text: None }
    }

    fn add(&mut self, label: &Label<'_>, value: Value<'_>) {
        let labels = self.labels(label);
        match (self.figure.kind, value) {
            (Kind::Record(fields), Value::Pairs(pairs)) => self.add_record(fields, &labels, &pairs),
            (Kind::Histogram, Value::Pairs(pairs)) => {
                for (size, value) in &pairs {
                    let mut labels = labels.clone();
                    labels.push(("size".to_owned(), size_of(size).to_string()));
                    self.families[0]
                        .samples
                        .extend(number(value, Unit::None).map(|value| Sample { labels, value }));
                }
            }
            (Kind::Text, Value::Text(text)) => {
                if self.families[0].kind == FamilyKind::Gauge {
                    let is_good = matches!(&*text, "ok" | "up");
                    let value = if is_good { "1" } else { "0" }.to_owned();
                    self.families[0].samples.push(Sample { labels, value });
                } else if self.figure.labels.is_some() {
                    let mut labels = labels;
                    labels.push(("value".to_owned(), text.into_owned()));
                    self.families[0].samples.push(Sample { labels, value: "1".to_owned() });
                } else {
                    self.text = Some(text.into_owned());
                }
            }
            // A number for human readers, which another figure has exactly.
            (Kind::Text, _) => {}
            (_, value) => {
                let sample = number(&value, self.figure.unit).map(|value| Sample { labels, value });
                self.families[0].samples.extend(sample);
            }
        }
    }

    fn add_record(
        &mut self,
        fields: &[Field],
        labels: &[(String, String)],
        pairs: &[(std::borrow::Cow<'static, str>, Value<'_>)],
    ) {
        let value_of =
            |field: &Field| pairs.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
        let mut labels = labels.to_vec();
        for field in fields.iter().filter(|field| field.kind == Kind::Identity) {
            let text = match value_of(field) {
                Some(Value::Text(text)) => text.clone().into_owned(),
                Some(value) => number(value, Unit::None).unwrap_or_default(),
                None => String::new(),
            };
            labels.push((field.name.to_owned(), text));
        }
        let mut family = 0;
        let mut texts = labels.clone();
        for field in fields.iter().filter(|field| field.kind != Kind::Identity) {
            let value = value_of(field);
            if field.kind == Kind::Text {
                if let Some(Value::Text(text)) = value {
                    texts.push((field.name.to_owned(), text.clone().into_owned()));
                }
                continue;
            }
            let value = value.and_then(|value| number(value, field.unit));
            let sample = value.map(|value| Sample { labels: labels.clone(), value });
            self.families[family].samples.extend(sample);
            family += 1;
        }
        if texts.len() > labels.len() {
            self.families[family].samples.push(Sample { labels: texts, value: "1".to_owned() });
        }
    }

    fn labels(&self, label: &Label<'_>) -> Vec<(String, String)> {
        let Some((_, rest)) = self.figure.name.split_once('{') else { return Vec::new() };
        let name = rest.split('}').next().unwrap_or_default().to_owned();
        vec![(name, label.text())]
    }
}

/// States in words, `ok` or `up` if all is well, are 1 and 0.
fn family_kind(kind: Kind, figure: &Figure) -> FamilyKind {
    match kind {
        Kind::Counter => FamilyKind::Counter,
        Kind::Text if !figure.name.ends_with("_status") => FamilyKind::Info,
        _ => FamilyKind::Gauge,
    }
}

/// The size in the name of a class, which has the form of Redis: `4K` is 4096.
fn size_of(class: &str) -> u64 {
    let digits = class.trim_end_matches(|char: char| !char.is_ascii_digit());
    let power = match &class[digits.len()..] {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => 0,
    };
    digits.parse::<u64>().unwrap_or(0) << power
}

/// A number in its base unit.
fn number(value: &Value<'_>, unit: Unit) -> Option<String> {
    let (_, numerator, denominator) = base_unit(unit);
    let is_exact = numerator == 1.0 && denominator == 1.0;
    let scaled = |number: f64| Some(format!("{}", number * numerator / denominator));
    match value {
        Value::Whole(number) if is_exact => Some(number.to_string()),
        Value::Signed(number) if is_exact => Some(number.to_string()),
        Value::Whole(number) => scaled(*number as f64),
        Value::Signed(number) => scaled(*number as f64),
        Value::Hundredths(number)
        | Value::Mean(number)
        | Value::Thousandths(number)
        | Value::Millionths(number)
        | Value::Percent(number) => scaled(*number),
        Value::Nothing(_) | Value::Human(_) | Value::Text(_) | Value::Pairs(_) => None,
    }
}

struct Text {
    out: String,
    format: MetricsFormat,
}

impl Text {
    fn family(&mut self, family: &Family) {
        let sample_name = family.sample_name();
        let kind = match (family.kind, self.format) {
            (FamilyKind::Counter, _) => "counter",
            (FamilyKind::Info, MetricsFormat::OpenMetrics) => "info",
            (FamilyKind::Gauge | FamilyKind::Info, _) => "gauge",
        };
        // OpenMetrics names families, the other format names samples.
        let name = if self.format == MetricsFormat::OpenMetrics { &family.name } else { &sample_name };
        self.heading(name, kind, &family.help);
        for sample in &family.samples {
            self.sample(&sample_name, &sample.labels, &sample.value);
        }
    }

    fn heading(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        // OpenMetrics would have quotes escaped, too.
        let help = help.replace('"', "'");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &[(String, String)], value: &str) {
        self.out.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            self.escaped(text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        self.line(format_args!(" {value}"));
    }

    fn escaped(&mut self, text: &str) {
        for char in text.chars() {
            match char {
                '\\' => self.out.push_str(r"\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str(r"\n"),
                // Not escaped in these formats, and the end of a line for some readers.
                '\r' => self.out.push(' '),
                char => self.out.push(char),
            }
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(line);
        self.out.push('\n');
    }

    /// The durations of the commands that have run while `latency-tracking` was on.
    fn durations(&mut self, gathered: &Gathered<'_>) {
        if !gathered.config.latency_tracking {
            return;
        }
        let name = format!("{PREFIX}_command_duration_seconds");
        self.heading(&name, "histogram", "The durations of a command.");
        for (id, (command, _)) in NUMBERED.iter().enumerate() {
            // Most commands have never run: nothing is summed for them.
            if !has_durations(gathered.shared, id) {
                continue;
            }
            let buckets = histogram(gathered.shared, id);
            if buckets.iter().any(|count| *count > 0) {
                self.duration(&name, command, &buckets);
            }
        }
    }

    fn duration(&mut self, name: &str, command: &str, buckets: &[u64]) {
        let of_command = ("command".to_owned(), command.to_owned());
        let bucket_name = format!("{name}_bucket");
        let (mut below, mut next) = (0, 0);
        for power in DURATION_POWERS {
            let limit_ns = 1_u64 << power;
            while next < buckets.len() && bucket_max_ns(next) <= limit_ns {
                below += buckets[next];
                next += 1;
            }
            let limit = ("le".to_owned(), format!("{}", limit_ns as f64 / 1e9));
            self.sample(&bucket_name, &[of_command.clone(), limit], &below.to_string());
        }
        let count = buckets.iter().sum::<u64>().to_string();
        let all = ("le".to_owned(), "+Inf".to_owned());
        self.sample(&bucket_name, &[of_command.clone(), all], &count);
        // Of the limits of fine buckets, so at most a sixteenth too large.
        let sum_ns: f64 = buckets
            .iter()
            .enumerate()
            .map(|(index, count)| *count as f64 * bucket_max_ns(index) as f64)
            .sum();
        self.sample(&format!("{name}_sum"), std::slice::from_ref(&of_command), &format!("{}", sum_ns / 1e9));
        self.sample(&format!("{name}_count"), &[of_command], &count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_classes() {
        for (class, size) in [("0", 0), ("512", 512), ("1K", 1024), ("64M", 64 << 20), ("2G", 2 << 30)] {
            assert_eq!(size_of(class), size);
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text { out: String::new(), format: MetricsFormat::Prometheus };
        text.sample("a", &[("b".to_owned(), "1\n\"2\"\\\r3".to_owned())], "7");
        assert_eq!(text.out, "a{b=\"1\\n\\\"2\\\"\\\\ 3\"} 7\n");
    }
}
