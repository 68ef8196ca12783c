//! Renders a scene as a standalone SVG file.

use std::fmt::Write as _;

use super::{Anchor, Colour, Scene, Shape};

fn hex(colour: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

fn escaped(text: &str) -> String {
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

pub fn write(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escaped(&scene.title)
    );
    for shape in &scene.shapes {
        // Writing to a String cannot fail.
        let _ = match shape {
            Shape::Path { points, colour, width } => {
                let path: String = points
                    .iter()
                    .enumerate()
                    .map(|(at, (x, y))| format!("{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }))
                    .collect();
                writeln!(
                    svg,
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
                    hex(*colour)
                )
            }
            Shape::Dots { points, colour, radius } => {
                let _ = write!(svg, "<g fill=\"{}\" fill-opacity=\"0.7\">", hex(*colour));
                for (x, y) in points {
                    let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
                }
                writeln!(svg, "</g>")
            }
            Shape::Box { x, y, width, height, colour } => writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
                hex(*colour)
            ),
            Shape::Text { x, y, text, colour, anchor, is_large } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let size = if *is_large { "16\" font-weight=\"600" } else { "11" };
                writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                    hex(*colour),
                    escaped(text)
                )
            }
        };
    }
    svg.push_str("</svg>\n");
    svg
}
