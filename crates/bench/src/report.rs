//! A report on the terminal, as Markdown, JSON and CSV.

pub mod csv;
pub mod figures;
mod modes;
pub mod tables;

use std::fmt::Write as _;

use comfy_table::ContentArrangement;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use crate::outcome::Report;
use crate::report::tables::Table;

/// Renders the report for a terminal, with unlimited width.
#[must_use]
pub fn terminal(report: &Report) -> String {
    let mut text = String::new();
    for section in &report.sections {
        for table in tables::of_section(section) {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{}{}\n{}", table.title, about_line(&table.about), draw(&table));
            text.push('\n');
        }
    }
    for remark in &report.remarks {
        let _ = writeln!(text, "!! {remark}");
    }
    text.replace("**", "")
}

/// Renders the report as a Markdown document.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "# {}\n\nMeasured with broadloom bench {} on {} ({} CPUs, {:.0} GiB, Linux {}). Figures are medians over the rounds; \
         brackets hold the 95 % bootstrap interval of the median. Ratios are taken within each round.\n",
        report.title,
        report.version,
        machine.cpu,
        machine.cpu_count,
        machine.memory_size as f64 / (1u64 << 30) as f64,
        machine.kernel,
    );
    for remark in &report.remarks {
        let _ = write!(text, "\n> {}\n", remark.replace('\n', " "));
    }
    for section in &report.sections {
        let _ = write!(text, "\n## {}\n\n{}\n", section.title, section.about);
        for table in tables::of_section(section) {
            text.push_str(&markdown_table(&table));
        }
    }
    text.push_str(&markdown_table(&tables::of_servers(report)));
    text
}

/// Renders the whole report, including every sample.
pub fn json(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(report)
}

fn about_line(about: &str) -> String {
    if about.is_empty() { String::new() } else { format!("\n{about}") }
}

fn draw(table: &Table) -> comfy_table::Table {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(UTF8_FULL_CONDENSED);
    drawn.set_content_arrangement(ContentArrangement::Disabled);
    drawn.set_header(&table.header);
    drawn.add_rows(&table.rows);
    drawn
}

fn markdown_table(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let about = if table.about.is_empty() { String::new() } else { format!("{}\n\n", table.about) };
    let rule: Vec<String> = table.header.iter().map(|_| "---".to_owned()).collect();
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!("\n### {}\n\n{about}{}{}{rows}", table.title, line(&table.header), line(&rule))
}
