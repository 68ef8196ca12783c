//! Standalone figures: panels with lines and dots over two axes, or with bars, as SVG or PNG.
//!
//! [`Figure`] is the description; `layout` turns it into positioned shapes; `svg` and `png` write
//! these, so both look the same. No I/O; the same figure gives the same bytes. At most [`PANELS`]
//! panels with [`BARS`] bars each; lines are reduced for drawing.

mod font;
mod layout;
mod png;
mod svg;

pub const PANELS: usize = 64;
/// Maximum number of bars per panel.
pub const BARS: usize = 400;

/// A picture of panels below each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    pub title: String,
    pub panels: Vec<Panel>,
}

/// One panel of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    pub title: String,
    /// Name of the x axis.
    pub x: String,
    pub y: String,
    pub content: Content,
}

/// Content of a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Lines and dots over two axes.
    Marks(Vec<Mark>),
    /// Named bars below each other.
    Bars(Vec<Bar>),
}

/// A named set of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Name in the legend.
    pub name: String,
    /// The points; values that are not finite leave a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether the points are joined by a line.
    pub is_line: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    /// Length of the bar; `None` if there is no value.
    pub value: Option<f64>,
    /// Colour number.
    pub colour: usize,
}

impl Figure {
    pub fn svg(&self) -> String {
        svg::write(&layout::scene(self))
    }

    /// Renders a PNG with two pixels per SVG unit.
    pub fn png(&self) -> Vec<u8> {
        png::write(&layout::scene(self))
    }
}

/// Positioned shapes, in pixels from the top left.
struct Scene {
    title: String,
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

/// Colours that colour-blind readers can also distinguish (Okabe and Ito, 2008).
const PALETTE: [Colour; 8] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0x6b, 0x6b, 0x6b),
    Colour(0x8c, 0x56, 0x4b),
];
const INK: Colour = Colour(0x22, 0x22, 0x22);
const FAINT: Colour = Colour(0x66, 0x66, 0x66);
const GRID: Colour = Colour(0xdd, 0xdd, 0xdd);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Colour(u8, u8, u8);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Path { points: Vec<(f64, f64)>, colour: Colour, width: f64 },
    Dots { points: Vec<(f64, f64)>, colour: Colour, radius: f64 },
    Box { x: f64, y: f64, width: f64, height: f64, colour: Colour },
    Text { x: f64, y: f64, text: String, colour: Colour, anchor: Anchor, is_large: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let line = Mark {
            name: "actual <b>".into(),
            points: (0..50)
                .map(|n| (f64::from(n), 50.0 + f64::from(n % 7)))
                .chain([(50.0, f64::NAN), (51.0, 60.0)])
                .collect(),
            is_line: true,
        };
        let dots = Mark { name: "predicted".into(), is_line: false, ..line.clone() };
        let panel = |content| Panel { title: "package".into(), x: "seconds".into(), y: "W".into(), content };
        Figure {
            title: "power & \"time\"".into(),
            panels: vec![
                panel(Content::Marks(vec![line, dots])),
                panel(Content::Bars(vec![
                    Bar { name: "XgboostFitTrainer_0".into(), value: Some(4.5), colour: 0 },
                    Bar { name: "none".into(), value: None, colour: 1 },
                ])),
                panel(Content::Marks(Vec::new())),
            ],
        }
    }

    #[test]
    fn an_svg_is_whole_and_escaped() {
        let svg = figure().svg();
        assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("actual &lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // The gap splits the line into two paths.
        assert!(svg.contains("nothing to draw"), "an empty panel says so");
        assert_eq!(svg, figure().svg());
    }

    #[test]
    fn a_png_has_its_size_and_pixels_of_the_marks() {
        let png = figure().png();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let number =
            |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]) as usize;
        let (width, height) = (number(16), number(20));
        let scene = layout::scene(&figure());
        assert_eq!((width, height), (scene.width as usize * 2, scene.height as usize * 2));
        let pixels = png::unpacked(&png);
        assert_eq!(pixels.len(), height * (width * 3 + 1));
        let count = |colour: Colour| {
            pixels
                .chunks(width * 3 + 1)
                .flat_map(|row| row[1..].chunks(3))
                .filter(|pixel| **pixel == [colour.0, colour.1, colour.2])
                .count()
        };
        assert!(count(PALETTE[0]) > 500 && count(PALETTE[1]) > 50, "lines, bars and dots are there");
        assert!(count(Colour(255, 255, 255)) > width * height / 2);
    }
}
