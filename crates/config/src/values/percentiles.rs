//! `latency-tracking-info-percentiles`: the percentiles that `INFO latencystats` shows.

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting};
use crate::values::join;

/// Percentiles, each from 0 to 100.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl Setting for Percentiles {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let given = if args == [b""] { &[] } else { args };
        given.iter().map(|arg| parse_percentile(arg)).collect::<Result<_, _>>().map(Self)
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        join(self.0.iter().map(|percentile| {
            // Six decimals, as from C's `%f`, without trailing zeros.
            let text = format!("{percentile:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }))
    }

    /// Always written: without the line, a file would mean the defaults.
    fn file_lines(&self, rule: &Rule, _: &Self) -> FileLines {
        let value = if self.0.is_empty() { b"\"\"".to_vec() } else { self.print(rule) };
        FileLines::one(value, true)
    }

    fn describe(_: &Rule) -> String {
        "percentiles from 0 to 100, or \"\" for none".into()
    }
}

fn parse_percentile(arg: &[u8]) -> Result<f64, Reason> {
    let percentile: f64 = std::str::from_utf8(arg)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|percentile: &f64| !percentile.is_nan())
        .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
    if !(0.0..=100.0).contains(&percentile) {
        return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
    }
    Ok(percentile)
}
