//! Standalone figures: panels with lines and dots over two axes, or with bars, as SVG or PNG.
//!
//! [`PlotFigure`] is the description; `layout` turns it into positioned shapes; `svg` and `png`
//! write these, so both look the same. No I/O; the same figure gives the same bytes. At most
//! [`PANELS`] panels with [`MAX_BARS`] bars each; lines are reduced for drawing.

mod font;
mod layout;
mod png;
mod svg;

pub const MAX_PANELS: usize = 64;
/// Maximum number of bars per panel.
pub const MAX_BARS: usize = 400;

/// A picture of panels below each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlotFigure {
    pub title: String,
    pub panels: Vec<FigurePanel>,
}

/// One panel of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct FigurePanel {
    pub title: String,
    /// Name of the x axis.
    pub x: String,
    pub y: String,
    pub content: PanelContent,
}

/// Content of a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum PanelContent {
    /// Lines and dots over two axes.
    Marks(Vec<PlotMark>),
    /// Named bars below each other.
    Bars(Vec<PlotBar>),
}

/// A named set of points.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotMark {
    /// Name in the legend.
    pub name: String,
    /// The points; values that are not finite leave a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether the points are joined by a line.
    pub is_line: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlotBar {
    pub name: String,
    /// Length of the bar; `None` if there is no value.
    pub value: Option<f64>,
    /// Colour number.
    pub colour: usize,
}

impl PlotFigure {
    pub fn to_svg(&self) -> String {
        svg::write_svg(&layout::lay_out(self))
    }

    /// Renders a PNG with two pixels per SVG unit.
    pub fn to_png(&self) -> Vec<u8> {
        png::write_png(&layout::lay_out(self))
    }
}

/// Positioned shapes, in pixels from the top left.
struct FigureScene {
    title: String,
    width: f64,
    height: f64,
    shapes: Vec<SceneShape>,
}

/// Colours that colour-blind readers can also distinguish (Okabe and Ito, 2008).
const PALETTE: [RgbColour; 8] = [
    RgbColour(0x00, 0x72, 0xb2),
    RgbColour(0xd5, 0x5e, 0x00),
    RgbColour(0x00, 0x9e, 0x73),
    RgbColour(0xcc, 0x79, 0xa7),
    RgbColour(0xe6, 0x9f, 0x00),
    RgbColour(0x56, 0xb4, 0xe9),
    RgbColour(0x6b, 0x6b, 0x6b),
    RgbColour(0x8c, 0x56, 0x4b),
];
const INK: RgbColour = RgbColour(0x22, 0x22, 0x22);
const FAINT: RgbColour = RgbColour(0x66, 0x66, 0x66);
const GRID: RgbColour = RgbColour(0xdd, 0xdd, 0xdd);

#[derive(Debug, Clone, Copy, PartialEq)]
struct RgbColour(u8, u8, u8);

#[derive(Debug, Clone, Copy, PartialEq)]
enum TextAnchor {
    Start,
    Middle,
    End,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
enum SceneShape {
    Path { points: Vec<(f64, f64)>, colour: RgbColour, width: f64 },
    Dots { points: Vec<(f64, f64)>, colour: RgbColour, radius: f64 },
    Box { x: f64, y: f64, width: f64, height: f64, colour: RgbColour },
    Text { x: f64, y: f64, text: String, colour: RgbColour, anchor: TextAnchor, is_large: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> PlotFigure {
        let line = PlotMark {
            name: "actual <b>".into(),
            points: (0..50)
                .map(|n| (f64::from(n), 50.0 + f64::from(n % 7)))
                .chain([(50.0, f64::NAN), (51.0, 60.0)])
                .collect(),
            is_line: true,
        };
        let dots = PlotMark { name: "predicted".into(), is_line: false, ..line.clone() };
        let panel =
            |content| FigurePanel { title: "package".into(), x: "seconds".into(), y: "W".into(), content };
        PlotFigure {
            title: "power & \"time\"".into(),
            panels: vec![
                panel(PanelContent::Marks(vec![line, dots])),
                panel(PanelContent::Bars(vec![
                    PlotBar { name: "XgboostFitTrainer_0".into(), value: Some(4.5), colour: 0 },
                    PlotBar { name: "none".into(), value: None, colour: 1 },
                ])),
                panel(PanelContent::Marks(Vec::new())),
            ],
        }
    }

    #[test]
    fn an_svg_is_whole_and_escaped() {
        let svg = figure().to_svg();
        assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("actual &lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // The gap splits the line into two paths.
        assert!(svg.contains("nothing to draw"), "an empty panel says so");
        assert_eq!(svg, figure().to_svg());
    }

    #[test]
    fn a_png_has_its_size_and_pixels_of_the_marks() {
        let png = figure().to_png();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let number =
            |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]) as usize;
        let (width, height) = (number(16), number(20));
        let scene = layout::lay_out(&figure());
        assert_eq!((width, height), (scene.width as usize * 2, scene.height as usize * 2));
        let pixels = png::unpacked(&png);
        assert_eq!(pixels.len(), height * (width * 3 + 1));
        let count = |colour: RgbColour| {
            pixels
                .chunks(width * 3 + 1)
                .flat_map(|row| row[1..].chunks(3))
                .filter(|pixel| **pixel == [colour.0, colour.1, colour.2])
                .count()
        };
        assert!(count(PALETTE[0]) > 500 && count(PALETTE[1]) > 50, "lines, bars and dots are there");
        assert!(count(RgbColour(255, 255, 255)) > width * height / 2);
    }
}
