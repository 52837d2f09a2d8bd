//! The findings of an audit as a table, for a terminal or as Markdown.

use super::{Costs, Finding};

/// Widths of the columns, without the last one.
const WIDTHS: [usize; 8] = [54, 9, 10, 10, 7, 10, 7, 7];

const HEADS: [&str; 9] =
    ["case", "N", "N: ms", "4N: ms", "growth", "Valkey 4N", "growth", "ratio", "over the limit"];

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Columns aligned with spaces.
    Aligned,
    /// A Markdown table.
    Markdown,
}

impl Form {
    /// Returns the lines before the findings.
    pub fn head(self) -> String {
        let head = self.line(&HEADS.map(str::to_owned));
        match self {
            Self::Aligned => head,
            Self::Markdown => format!("{head}\n|---|--:|--:|--:|--:|--:|--:|--:|---|"),
        }
    }

    /// Returns the line of a finding. The ratio is our cost to Valkey's, the worse of both sizes.
    pub fn finding(self, finding: &Finding) -> String {
        let ms = |ms: f64| format!("{ms:.2}");
        let growth = |costs: Costs| format!("{:.1}", costs.growth());
        let none = || "-".to_owned();
        self.line(&[
            finding.case.title.to_owned(),
            finding.size.to_string(),
            ms(finding.ours.small),
            ms(finding.ours.large),
            growth(finding.ours),
            finding.peer.map_or_else(none, |peer| ms(peer.large)),
            finding.peer.map_or_else(none, growth),
            finding.ratio().map_or_else(none, |ratio| format!("{ratio:.2}")),
            finding.complaint(),
        ])
    }

    fn line(self, cells: &[String; 9]) -> String {
        if self == Self::Markdown {
            return format!("| {} |", cells.join(" | "));
        }
        let mut line = format!("{:<width$}", cells[0], width = WIDTHS[0]);
        for (cell, width) in cells[1..].iter().zip(&WIDTHS[1..]) {
            line.push_str(&format!(" {cell:>width$}"));
        }
        format!("{line}  {}", cells[8]).trim_end().to_owned()
    }
}
