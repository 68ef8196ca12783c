//! Renders a report as one HTML file: inline style, no external resources, all texts escaped by the
//! template.

use askama::Template;

use crate::blocks::{ReportBlock, ReportSection};
use crate::flame::{SCRIPT, SCRIPT_DIGEST};
use crate::value_format::format_moment;
use crate::{Error, ReportRecord};

#[derive(Template)]
#[template(path = "report.html")]
struct HtmlReport<'a> {
    title: &'a str,
    record: &'a ReportRecord,
    sections: &'a [ReportSection],
    style: &'static str,
    script: &'static str,
    policy: String,
    made: String,
}

/// Forbids all fetches; the only allowed script is that of the flame graphs, by its digest.
fn content_policy(has_flame: bool) -> String {
    let script = if has_flame { format!("; script-src '{SCRIPT_DIGEST}'") } else { String::new() };
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'{script}"
    )
}

pub fn render_html(title: &str, record: &ReportRecord, sections: &[ReportSection]) -> Result<String, Error> {
    let has_flame = sections
        .iter()
        .flat_map(|section| &section.blocks)
        .any(|block| matches!(block, ReportBlock::Flame { .. }));
    let page = HtmlReport {
        title,
        record,
        sections,
        style: include_str!("../templates/report.css"),
        script: if has_flame { SCRIPT } else { "" },
        policy: content_policy(has_flame),
        made: format_moment(record.made),
    };
    Ok(page.render()?)
}
