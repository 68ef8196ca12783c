//! Draws stacks as SVG, as a file of its own or inside a page.

use std::fmt::Write as _;

use super::collapsed_stacks::CollapsedStacks;
use super::layout::{FlameLayout, FrameBox, lay_out_frames};
use super::{SCRIPT, collapsed_stacks};
use crate::chart::escape_markup;
use crate::value_format::shorten;

const WIDTH: f64 = 1200.0;
const PAD: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 54.0;
const FOOT: f64 = 12.0;
/// Character width of the font.
const CHARACTER: f64 = 6.6;

const STYLE: &str = ".flame{background:#fff;font:11px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}\
.flame text{fill:#1b1f24}.flame .t{font-size:15px;font-weight:600}.flame .note{fill:#5b6670}\
.flame .b{fill:#2f6fdb;cursor:pointer;text-decoration:underline}.flame rect{stroke:#fff;stroke-width:.5}\
.flame .f text{pointer-events:none}.flame .f{cursor:pointer}.flame .f:hover rect{stroke:#1b1f24;stroke-width:1}\
.flame .hit rect{fill:#e35bd8}.flame:not(.live) .b{display:none}\
@media(prefers-color-scheme:dark){.flame{background:#12161b}.flame .t{fill:#e6eaee}.flame .note{fill:#9aa6b1}\
.flame .b{fill:#6ea8fe}.flame rect{stroke:#12161b}.flame .f:hover rect{stroke:#fff}}\
@media print{.flame{background:#fff}.flame .b{display:none}}";

/// The baseline of a differential flame graph.
#[derive(Debug, Clone, Copy)]
pub struct FlameBaseline<'a> {
    pub stacks: &'a CollapsedStacks,
    /// Display name of the baseline.
    pub label: &'a str,
}

/// Draws a standalone SVG file.
pub fn standalone_svg(stacks: &CollapsedStacks, title: &str, against: Option<FlameBaseline<'_>>) -> String {
    let body = draw_flame(stacks, title, against, true);
    let script = format!("<script><![CDATA[\n{SCRIPT}]]></script></svg>\n");
    let body = body.strip_suffix("</svg>").unwrap_or(&body);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}{script}")
}

/// Draws an SVG for a page that includes the script once.
pub fn embedded_svg(stacks: &CollapsedStacks, title: &str, against: Option<FlameBaseline<'_>>) -> String {
    draw_flame(stacks, title, against, false)
}

fn draw_flame(
    stacks: &CollapsedStacks,
    title: &str,
    against: Option<FlameBaseline<'_>>,
    is_alone: bool,
) -> String {
    let laid = lay_out_frames(stacks, against.map(|against| against.stacks));
    let height = HEAD + (laid.deepest + 1) as f64 * ROW + FOOT;
    let title = match against {
        Some(against) => format!("{title} against {}", against.label),
        None => title.to_string(),
    };
    // A standalone file has a fixed size: browsers would shrink a deep graph to the window height.
    let size = match is_alone {
        true => format!(" xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\""),
        false => " width=\"100%\"".to_string(),
    };
    let samples = against.map(|against| (against.stacks.total_samples(), stacks.total_samples()));
    let mut svg = format!(
        "<svg{size} class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" data-w=\"{}\" data-p=\"{PAD}\" role=\"img\" aria-label=\"{}\"><style>{STYLE}</style>",
        WIDTH - 2.0 * PAD,
        escape_markup(&format!("Flame graph of {title}: {}", summarize_functions(stacks, &laid)))
    );
    let _ = write!(
        svg,
        "<text class=\"t\" x=\"{PAD}\" y=\"20\">{}</text><text class=\"note\" x=\"{PAD}\" y=\"39\">{}</text>",
        escape_markup(&shorten(&title, 110)),
        escape_markup(&describe_omissions(stacks, &laid, against))
    );
    let _ = write!(
        svg,
        "<text class=\"b reset\" role=\"button\" tabindex=\"0\" x=\"{:.0}\" y=\"20\">reset</text><text class=\"b search\" role=\"button\" tabindex=\"0\" x=\"{:.0}\" y=\"20\">search</text>",
        WIDTH - PAD - 100.0,
        WIDTH - PAD - 46.0
    );
    for place in &laid.places {
        draw_frame(&mut svg, place, stacks.total_samples(), samples);
    }
    svg.push_str("</svg>");
    svg
}

/// Text alternative of the picture, for screen readers.
fn summarize_functions(stacks: &CollapsedStacks, laid: &FlameLayout<'_>) -> String {
    let mut own: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for place in &laid.places {
        *own.entry(place.name).or_default() += place.own;
    }
    let mut most: Vec<(&str, u64)> = own.into_iter().filter(|(_, own)| *own > 0).collect();
    most.sort_by(|l, r| r.1.cmp(&l.1).then(l.0.cmp(r.0)));
    let describe = |(name, own): &(&str, u64)| {
        format!("{} {:.1} %", shorten(name, 60), *own as f64 * 100.0 / stacks.total_samples().max(1) as f64)
    };
    format!("most time in {}", most.iter().take(5).map(describe).collect::<Vec<_>>().join(", "))
}

fn describe_omissions(
    stacks: &CollapsedStacks,
    laid: &FlameLayout<'_>,
    against: Option<FlameBaseline<'_>>,
) -> String {
    let mut text = format!("{} samples", stacks.total_samples());
    if laid.left_out > 0 {
        text.push_str(&format!("; {} narrow frames and what they called are left out", laid.left_out));
    }
    if stacks.cut > 0 {
        text.push_str(&format!(
            "; {} samples deeper than {} frames are cut",
            stacks.cut,
            collapsed_stacks::MAX_DEPTH
        ));
    }
    if let Some(against) = against {
        text.push_str(&format!(
            "; red: a larger share than in {}, blue: a smaller one, grey: no more than chance",
            shorten(against.label, 40)
        ));
        if laid.vanished > 0.0005 {
            text.push_str(&format!(
                "; {:.1} % of it are in stacks that are left out here",
                laid.vanished * 100.0
            ));
        }
    }
    text
}

fn draw_frame(svg: &mut String, place: &FrameBox<'_>, whole: u64, samples: Option<(u64, u64)>) {
    let (x, width) = (PAD + place.from * (WIDTH - 2.0 * PAD), place.share * (WIDTH - 2.0 * PAD));
    let y = HEAD + place.depth as f64 * ROW;
    let mut tip = format!("{}\n{} of {whole} samples, {:.2} %", place.name, place.total, place.share * 100.0);
    if place.own > 0 && place.own < place.total {
        tip.push_str(&format!("; {:.2} % in itself", place.own as f64 * 100.0 / whole.max(1) as f64));
    }
    if let Some(before) = place.before {
        let points = (place.share - before) * 100.0;
        let sign = if points < 0.0 { "−" } else { "+" };
        tip.push_str(&format!("\nbefore {:.2} %: {sign}{:.2} points", before * 100.0, points.abs()));
    }
    let fill = match (place.before, samples) {
        (Some(before), Some(samples)) => colour_by_difference(place.share, before, samples),
        _ => colour_by_name(place.name),
    };
    let _ = write!(
        svg,
        "<g class=\"f\" data-x=\"{:.6}\" data-w=\"{:.6}\"><title>{}</title><rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{ROW}\" rx=\"1\" fill=\"{fill}\"/>",
        place.from,
        place.share,
        escape_markup(&tip),
        width.max(0.1)
    );
    let fits = ((width - 6.0) / CHARACTER).floor();
    let label = match fits {
        fits if fits < 3.0 => String::new(),
        fits => clip_name(place.name, fits as usize),
    };
    let _ =
        write!(svg, "<text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>", x + 3.0, y + 12.5, escape_markup(&label));
}

/// Shortens a name to the available width.
fn clip_name(name: &str, fits: usize) -> String {
    match name.chars().count() <= fits {
        true => name.to_string(),
        false => format!("{}…", name.chars().take(fits - 1).collect::<String>()),
    }
}

/// Warm colours for user code, cool colours for the kernel; a name has the same colour everywhere.
fn colour_by_name(name: &str) -> String {
    let hash = metier_types::random::hash_name(name);
    let (a, b) = ((hash >> 8) % 24, (hash >> 32) % 12);
    if name == "all" {
        "hsl(40 20% 82%)".to_string()
    } else if name.ends_with("_[k]") || name.starts_with("[k]") {
        format!("hsl({} 55% {}%)", 190 + a, 68 + b)
    } else {
        format!("hsl({} 85% {}%)", 18 + a, 66 + b)
    }
}

/// Grey if the difference is not significant for these sample counts. Otherwise red or blue; the
/// colour is stronger for a larger change relative to the larger share.
fn colour_by_difference(share: f64, before: f64, samples: (u64, u64)) -> String {
    let (n, m) = (samples.0.max(1) as f64, samples.1.max(1) as f64);
    // The pooled share assumes no change; two standard deviations are the usual limit.
    let pooled = (before * n + share * m) / (n + m);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).max(0.0).sqrt();
    if (share - before).abs() <= 2.0 * deviation {
        return "hsl(0 0% 90%)".to_string();
    }
    let larger = share.max(before);
    let change = if larger > 0.0 { (share - before) / larger } else { 0.0 };
    let light = 94.0 - 40.0 * change.abs().min(1.0);
    match change {
        change if change > 0.0 => format!("hsl(8 85% {light:.0}%)"),
        _ => format!("hsl(215 80% {light:.0}%)"),
    }
}
