//! Layout of a figure: turns panels into positioned shapes.

use super::{
    FAINT, FigurePanel, FigureScene, GRID, INK, MAX_BARS, MAX_PANELS, PALETTE, PanelContent, PlotBar,
    PlotFigure, PlotMark, SceneShape, TextAnchor,
};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
/// Height of the plot area.
const HEIGHT: f64 = 190.0;
/// Space above it for title and legend, and below it for the axis.
const TITLE_HEIGHT: f64 = 40.0;
const AXIS_HEIGHT: f64 = 44.0;
/// Height of a bar including its gap.
const BAR_HEIGHT: f64 = 16.0;
/// Space for the names of bars.
const NAME_WIDTH: f64 = 330.0;
/// Maximum number of drawn points per line.
const MAX_POINTS: usize = 1600;
/// Width of a letter.
const LETTER_WIDTH: f64 = 6.0;

fn text_shape(x: f64, y: f64, text: &str, colour: super::RgbColour, anchor: TextAnchor) -> SceneShape {
    SceneShape::Text { x, y, text: text.to_string(), colour, anchor, is_large: false }
}

/// Lays out a figure.
pub fn lay_out(figure: &PlotFigure) -> FigureScene {
    let title = SceneShape::Text {
        x: LEFT,
        y: 24.0,
        text: figure.title.clone(),
        colour: INK,
        anchor: TextAnchor::Start,
        is_large: true,
    };
    let mut shapes = vec![title];
    let mut top = 38.0;
    for panel in figure.panels.iter().take(MAX_PANELS) {
        shapes.push(text_shape(LEFT, top + 16.0, &panel.title, INK, TextAnchor::Start));
        top = match &panel.content {
            PanelContent::Marks(marks) => draw_marks(&mut shapes, panel, marks, top + TITLE_HEIGHT),
            PanelContent::Bars(bars) => draw_bars(&mut shapes, panel, bars, top + TITLE_HEIGHT - 12.0),
        };
    }
    if figure.panels.len() > MAX_PANELS {
        let more = format!("and {} more", figure.panels.len() - MAX_PANELS);
        shapes.push(text_shape(LEFT, top + 14.0, &more, FAINT, TextAnchor::Start));
        top += 20.0;
    }
    FigureScene { title: figure.title.clone(), width: WIDTH, height: (top + 10.0).ceil(), shapes }
}

/// Range of the finite numbers; `None` if there are none.
fn finite_range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((f64::min(least, value), f64::max(most, value))),
    })
}

/// Round numbers for the ticks of a range.
fn ticks(low: f64, high: f64, about: f64) -> Vec<f64> {
    let raw = (high - low) / about;
    if !(raw.is_finite() && raw > 0.0) {
        return vec![low];
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|by| by * power)
        .find(|step| *step >= raw)
        .unwrap_or(power * 10.0);
    let first = (low / step).ceil();
    (0..40).map(|n| (first + f64::from(n)) * step).take_while(|value| *value <= high + step * 1e-9).collect()
}

/// Formats a number in the shortest form.
pub fn format_short(value: f64) -> String {
    let size = value.abs();
    let (by, letter) = match size {
        _ if size >= 1e9 => (1e9, "G"),
        _ if size >= 1e6 => (1e6, "M"),
        _ if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = value / by;
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 || size == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{letter}")
}

/// Draws marks over two axes; returns the top of the next panel.
fn draw_marks(shapes: &mut Vec<SceneShape>, panel: &FigurePanel, marks: &[PlotMark], top: f64) -> f64 {
    let bottom = top + HEIGHT;
    let points =
        || marks.iter().flat_map(|mark| &mark.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let (Some((left, right)), Some((low, high))) =
        (finite_range(points().map(|point| point.0)), finite_range(points().map(|point| point.1)))
    else {
        shapes.push(text_shape(LEFT, top + 20.0, "nothing to draw", FAINT, TextAnchor::Start));
        return top + 40.0;
    };
    // Axes of power and features start at 0, so that heights are comparable; negative values extend
    // them.
    let low = low.min(0.0);
    let high = if high > low { high + (high - low) * 0.05 } else { low + 1.0 };
    let right = if right > left { right } else { left + 1.0 };
    let x = |value: f64| LEFT + (value - left) / (right - left) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| bottom - (value - low) / (high - low) * HEIGHT;
    for value in ticks(low, high, 5.0) {
        let points = vec![(LEFT, y(value)), (WIDTH - RIGHT, y(value))];
        shapes.push(SceneShape::Path { points, colour: GRID, width: 1.0 });
        shapes.push(text_shape(LEFT - 6.0, y(value) + 4.0, &format_short(value), FAINT, TextAnchor::End));
    }
    for value in ticks(left, right, 8.0) {
        shapes.push(SceneShape::Path {
            points: vec![(x(value), bottom), (x(value), bottom + 4.0)],
            colour: FAINT,
            width: 1.0,
        });
        let anchor = if x(value) > WIDTH - RIGHT - 20.0 { TextAnchor::End } else { TextAnchor::Middle };
        shapes.push(text_shape(x(value), bottom + 16.0, &format_short(value), FAINT, anchor));
    }
    shapes.push(SceneShape::Path {
        points: vec![(LEFT, top), (LEFT, bottom), (WIDTH - RIGHT, bottom)],
        colour: FAINT,
        width: 1.0,
    });
    shapes.push(text_shape(WIDTH - RIGHT, bottom + 30.0, &panel.x, FAINT, TextAnchor::End));
    shapes.push(text_shape(LEFT, top - 6.0, &panel.y, FAINT, TextAnchor::Start));
    for (number, mark) in marks.iter().enumerate() {
        let colour = PALETTE[number % PALETTE.len()];
        for part in mark.points.split(|(x, y)| !x.is_finite() || !y.is_finite()) {
            let points: Vec<(f64, f64)> =
                thin_points(part).into_iter().map(|(at, value)| (x(at), y(value))).collect();
            match (mark.is_line, points.len()) {
                (_, 0) => {}
                (true, 2..) => shapes.push(SceneShape::Path { points, colour, width: 1.4 }),
                _ => shapes.push(SceneShape::Dots { points, colour, radius: 1.8 }),
            }
        }
    }
    draw_legend(shapes, marks, panel, top - 6.0);
    bottom + AXIS_HEIGHT
}

/// Draws the names of the marks at the right, next to the name of the y axis.
fn draw_legend(shapes: &mut Vec<SceneShape>, marks: &[PlotMark], panel: &FigurePanel, y: f64) {
    let mut x = LEFT + (panel.y.chars().count() as f64 + 3.0) * LETTER_WIDTH;
    for (number, mark) in marks.iter().enumerate().filter(|(_, mark)| !mark.name.is_empty()) {
        let width = (mark.name.chars().count() as f64 + 4.0) * LETTER_WIDTH;
        if x + width > WIDTH - RIGHT {
            shapes.push(text_shape(x, y, "...", FAINT, TextAnchor::Start));
            break;
        }
        let colour = PALETTE[number % PALETTE.len()];
        shapes.push(SceneShape::Box { x, y: y - 8.0, width: 9.0, height: 9.0, colour });
        shapes.push(text_shape(x + 13.0, y, &mark.name, INK, TextAnchor::Start));
        x += width;
    }
}

/// Reduces points but keeps the outline: the smallest and the largest value of each interval.
fn thin_points(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let mut thinned = Vec::with_capacity(MAX_POINTS + 2);
    for stretch in points.chunks(points.len().div_ceil(MAX_POINTS / 2)) {
        let least = stretch.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let most = stretch.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut pair: Vec<(f64, f64)> = least.into_iter().chain(most).copied().collect();
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        thinned.append(&mut pair);
    }
    thinned
}

/// Draws bars below each other; returns the top of the next panel.
fn draw_bars(shapes: &mut Vec<SceneShape>, panel: &FigurePanel, bars: &[PlotBar], top: f64) -> f64 {
    let most = bars.iter().filter_map(|bar| bar.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    if bars.is_empty() {
        shapes.push(text_shape(LEFT, top + 20.0, "nothing to draw", FAINT, TextAnchor::Start));
        return top + 40.0;
    }
    let room = WIDTH - NAME_WIDTH - RIGHT - 60.0;
    for (number, bar) in bars.iter().take(MAX_BARS).enumerate() {
        let y = top + number as f64 * BAR_HEIGHT;
        let fits = ((NAME_WIDTH - 12.0) / LETTER_WIDTH) as usize;
        let name: String = bar.name.chars().take(fits).collect();
        shapes.push(text_shape(NAME_WIDTH - 8.0, y + 11.0, &name, INK, TextAnchor::End));
        let Some(value) = bar.value.filter(|value| value.is_finite()) else {
            shapes.push(text_shape(NAME_WIDTH, y + 11.0, "-", FAINT, TextAnchor::Start));
            continue;
        };
        let width = if most > 0.0 { value.max(0.0) / most * room } else { 0.0 };
        let colour = PALETTE[bar.colour % PALETTE.len()];
        shapes.push(SceneShape::Box {
            x: NAME_WIDTH,
            y: y + 2.0,
            width: width.max(1.0),
            height: BAR_HEIGHT - 4.0,
            colour,
        });
        shapes.push(text_shape(
            NAME_WIDTH + width + 6.0,
            y + 11.0,
            &format_short(value),
            FAINT,
            TextAnchor::Start,
        ));
    }
    let shown = bars.len().min(MAX_BARS);
    let mut bottom = top + shown as f64 * BAR_HEIGHT;
    let what = match bars.len() - shown {
        0 => panel.x.clone(),
        more => format!("{}; {more} more bars are not shown", panel.x),
    };
    shapes.push(text_shape(NAME_WIDTH, bottom + 14.0, &what, FAINT, TextAnchor::Start));
    bottom += 34.0;
    bottom
}
