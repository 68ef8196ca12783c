//! Renders a report as Markdown for merge requests, issues and terminals. Charts become sentences.

use std::fmt::Write as _;

use crate::ReportRecord;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportSection, ReportTable};
use crate::value_format::format_moment;

pub fn render_markdown(title: &str, record: &ReportRecord, sections: &[ReportSection]) -> String {
    let mut text = format!("# {}\n\n", escape_inline(title));
    for subject in &record.subjects {
        let name = if record.subjects.len() > 1 {
            format!("{}: ", escape_inline(&subject.label))
        } else {
            String::new()
        };
        let _ = writeln!(text, "**{name}{}**\n", escape_inline(&subject.verdict));
    }
    for section in sections {
        let _ = writeln!(text, "## {}\n", escape_inline(&section.title));
        for block in &section.blocks {
            write_block(&mut text, block);
        }
    }
    let _ = writeln!(text, "Made by {} at {}.", escape_inline(&record.made_by), format_moment(record.made));
    text
}

fn write_block(text: &mut String, block: &ReportBlock) {
    match block {
        ReportBlock::Text(words) => {
            let _ = writeln!(text, "{}\n", escape_inline(words));
        }
        ReportBlock::Warning(words) => {
            let _ = writeln!(text, "> ⚠ {}\n", escape_inline(words));
        }
        ReportBlock::Facts(facts) => {
            let mut table = ReportTable::new("", &["", ""]);
            table.rows.extend(facts.iter().map(|(label, cell)| vec![ReportCell::text(label), cell.clone()]));
            write_table(text, &table);
        }
        ReportBlock::Table(table) => write_table(text, table),
        ReportBlock::More(words, table) => {
            // Collapsed in a web page, plain text in a terminal.
            let _ = writeln!(text, "<details><summary>{}</summary>\n", escape_inline(words));
            write_table(text, table);
            text.push_str("</details>\n\n");
        }
        ReportBlock::Chart(chart) => {
            let _ = writeln!(text, "- {}: {}\n", escape_inline(&chart.title), escape_inline(&chart.summary));
        }
        ReportBlock::Copy(lines) => {
            let _ = writeln!(text, "```yaml\n{}\n```\n", lines.replace("```", "'''"));
        }
        ReportBlock::Flame { title, .. } => {
            let _ = writeln!(text, "{}: see the HTML form, or `metier flame`.\n", escape_inline(title));
        }
    }
}

fn write_table(text: &mut String, table: &ReportTable) {
    let head: Vec<String> = table.head.iter().map(|name| escape_inline(name)).collect();
    let rule: Vec<&str> =
        (0..head.len()).map(|column| if table.is_number(&column) { "---:" } else { "---" }).collect();
    let _ = writeln!(text, "| {} |\n| {} |", head.join(" | "), rule.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(format_cell).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn format_cell(cell: &ReportCell) -> String {
    match cell.tone {
        CellTone::Bad | CellTone::Good => format!("**{}**", escape_inline(&cell.text)),
        // A backtick cannot be escaped inside code, and a table row must not contain line breaks.
        CellTone::Code if !cell.text.is_empty() && !cell.text.contains('`') => {
            let (indent, rest): (String, String) = cell.text.chars().partition(|c| *c == '\u{2003}');
            format!("{indent}`{}`", flatten_controls(&rest).replace('|', "\\|"))
        }
        _ => escape_inline(&cell.text),
    }
}

fn flatten_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Escapes everything that Markdown or HTML would interpret.
fn escape_inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in flatten_controls(text).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '#' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}
