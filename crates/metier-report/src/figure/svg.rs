//! Renders a scene as a standalone SVG file.

use std::fmt::Write as _;

use super::{FigureScene, RgbColour, SceneShape, TextAnchor};

fn hex_colour(colour: RgbColour) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

pub fn write_svg(scene: &FigureScene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escape_markup(&scene.title)
    );
    for shape in &scene.shapes {
        // Writing to a String cannot fail.
        let _ = match shape {
            SceneShape::Path { points, colour, width } => {
                let path: String = points
                    .iter()
                    .enumerate()
                    .map(|(at, (x, y))| format!("{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }))
                    .collect();
                writeln!(
                    svg,
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
                    hex_colour(*colour)
                )
            }
            SceneShape::Dots { points, colour, radius } => {
                let _ = write!(svg, "<g fill=\"{}\" fill-opacity=\"0.7\">", hex_colour(*colour));
                for (x, y) in points {
                    let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
                }
                writeln!(svg, "</g>")
            }
            SceneShape::Box { x, y, width, height, colour } => writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
                hex_colour(*colour)
            ),
            SceneShape::Text { x, y, text, colour, anchor, is_large } => {
                let anchor = match anchor {
                    TextAnchor::Start => "start",
                    TextAnchor::Middle => "middle",
                    TextAnchor::End => "end",
                };
                let size = if *is_large { "16\" font-weight=\"600" } else { "11" };
                writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                    hex_colour(*colour),
                    escape_markup(text)
                )
            }
        };
    }
    svg.push_str("</svg>\n");
    svg
}
