//! Renders a report as one HTML file: inline style, no external resources, all texts escaped by the
//! template.

use askama::Template;

use crate::blocks::{Block, Section};
use crate::flame::{SCRIPT, SCRIPT_DIGEST};
use crate::words::moment;
use crate::{Error, ReportRecord};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: &'a str,
    record: &'a ReportRecord,
    sections: &'a [Section],
    style: &'static str,
    script: &'static str,
    policy: String,
    made: String,
}

/// Forbids all fetches; the only allowed script is that of the flame graphs, by its digest.
fn policy(has_flame: bool) -> String {
    let script = if has_flame { format!("; script-src '{SCRIPT_DIGEST}'") } else { String::new() };
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'{script}"
    )
}

pub fn page(title: &str, record: &ReportRecord, sections: &[Section]) -> Result<String, Error> {
    let has_flame =
        sections.iter().flat_map(|section| &section.blocks).any(|block| matches!(block, Block::Flame { .. }));
    let page = Page {
        title,
        record,
        sections,
        style: include_str!("../templates/report.css"),
        script: if has_flame { SCRIPT } else { "" },
        policy: policy(has_flame),
        made: moment(record.made),
    };
    Ok(page.render()?)
}
