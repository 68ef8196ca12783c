//! Renders a report as Markdown for merge requests, issues and terminals. Charts become sentences.

use std::fmt::Write as _;

use crate::ReportRecord;
use crate::blocks::{Block, Cell, Section, Table, Tone};
use crate::words::moment;

pub fn page(title: &str, record: &ReportRecord, sections: &[Section]) -> String {
    let mut text = format!("# {}\n\n", inline(title));
    for subject in &record.subjects {
        let name =
            if record.subjects.len() > 1 { format!("{}: ", inline(&subject.label)) } else { String::new() };
        let _ = writeln!(text, "**{name}{}**\n", inline(&subject.verdict));
    }
    for section in sections {
        let _ = writeln!(text, "## {}\n", inline(&section.title));
        for block in &section.blocks {
            write_block(&mut text, block);
        }
    }
    let _ = writeln!(text, "Made by {} at {}.", inline(&record.made_by), moment(record.made));
    text
}

fn write_block(text: &mut String, block: &Block) {
    match block {
        Block::Text(words) => {
            let _ = writeln!(text, "{}\n", inline(words));
        }
        Block::Warning(words) => {
            let _ = writeln!(text, "> ⚠ {}\n", inline(words));
        }
        Block::Facts(facts) => {
            let mut table = Table::new("", &["", ""]);
            table.rows.extend(facts.iter().map(|(label, cell)| vec![Cell::text(label), cell.clone()]));
            write_table(text, &table);
        }
        Block::Table(table) => write_table(text, table),
        Block::More(words, table) => {
            // Collapsed in a web page, plain text in a terminal.
            let _ = writeln!(text, "<details><summary>{}</summary>\n", inline(words));
            write_table(text, table);
            text.push_str("</details>\n\n");
        }
        Block::Chart(chart) => {
            let _ = writeln!(text, "- {}: {}\n", inline(&chart.title), inline(&chart.summary));
        }
        Block::Copy(lines) => {
            let _ = writeln!(text, "```yaml\n{}\n```\n", lines.replace("```", "'''"));
        }
        Block::Flame { title, .. } => {
            let _ = writeln!(text, "{}: see the HTML form, or `metier flame`.\n", inline(title));
        }
    }
}

fn write_table(text: &mut String, table: &Table) {
    let head: Vec<String> = table.head.iter().map(|name| inline(name)).collect();
    let rule: Vec<&str> =
        (0..head.len()).map(|column| if table.is_number(&column) { "---:" } else { "---" }).collect();
    let _ = writeln!(text, "| {} |\n| {} |", head.join(" | "), rule.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn cell(cell: &Cell) -> String {
    match cell.tone {
        Tone::Bad | Tone::Good => format!("**{}**", inline(&cell.text)),
        // A backtick cannot be escaped inside code, and a table row must not contain line breaks.
        Tone::Code if !cell.text.is_empty() && !cell.text.contains('`') => {
            let (indent, rest): (String, String) = cell.text.chars().partition(|c| *c == '\u{2003}');
            format!("{indent}`{}`", flat(&rest).replace('|', "\\|"))
        }
        _ => inline(&cell.text),
    }
}

fn flat(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Escapes everything that Markdown or HTML would interpret.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in flat(text).chars() {
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
