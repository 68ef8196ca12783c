//! Renders a scene as PNG with a small anti-aliasing rasteriser; 8 bits per channel, no filters.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::font::{self, HEIGHT, WIDTH};
use super::{FigureScene, RgbColour, SceneShape, TextAnchor};

/// Pixels per SVG unit.
const PIXELS_PER_UNIT: f64 = 2.0;

struct PixelCanvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl PixelCanvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![255; width * height * 3] }
    }

    /// Blends a colour into a pixel; positions outside the image are ignored.
    fn blend_pixel(&mut self, x: i64, y: i64, colour: RgbColour, share: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width || y >= self.height || share <= 0.0 {
            return;
        }
        let share = share.min(1.0);
        let at = (y * self.width + x) * 3;
        for (place, part) in [colour.0, colour.1, colour.2].into_iter().enumerate() {
            let old = f64::from(self.pixels[at + place]);
            self.pixels[at + place] = (old + (f64::from(part) - old) * share).round() as u8;
        }
    }

    /// Blends each pixel near a line segment by its distance from the segment.
    fn draw_line(&mut self, from: (f64, f64), to: (f64, f64), half: f64, colour: RgbColour, strength: f64) {
        let edge = half + 1.0;
        let (left, right) = (from.0.min(to.0) - edge, from.0.max(to.0) + edge);
        let (top, bottom) = (from.1.min(to.1) - edge, from.1.max(to.1) + edge);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx * dx + dy * dy;
        for y in top.floor().max(0.0) as i64..=bottom.ceil().min(self.height as f64) as i64 {
            for x in left.floor().max(0.0) as i64..=right.ceil().min(self.width as f64) as i64 {
                let (px, py) = (x as f64 + 0.5 - from.0, y as f64 + 0.5 - from.1);
                let along = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (px - along * dx).hypot(py - along * dy);
                self.blend_pixel(x, y, colour, (half + 0.5 - distance).clamp(0.0, 1.0) * strength);
            }
        }
    }

    fn draw_text(&mut self, x: f64, y: f64, text: &str, colour: RgbColour, size: usize) {
        let (mut left, top) = (x.round() as i64, (y - (HEIGHT * size) as f64).round() as i64);
        for c in text.chars() {
            for (row, bits) in font::glyph(c).iter().enumerate() {
                for column in (0..WIDTH).filter(|column| bits & (1 << (WIDTH - 1 - column)) != 0) {
                    for part in 0..size * size {
                        let (x, y) = (column * size + part % size, row * size + part / size);
                        self.blend_pixel(left + x as i64, top + y as i64, colour, 1.0);
                    }
                }
            }
            left += ((WIDTH + 1) * size) as i64;
        }
    }
}

pub fn write_png(scene: &FigureScene) -> Vec<u8> {
    let mut canvas =
        PixelCanvas::new((scene.width * PIXELS_PER_UNIT) as usize, (scene.height * PIXELS_PER_UNIT) as usize);
    let at = |(x, y): (f64, f64)| (x * PIXELS_PER_UNIT, y * PIXELS_PER_UNIT);
    for shape in &scene.shapes {
        match shape {
            SceneShape::Path { points, colour, width } => {
                for pair in points.windows(2) {
                    canvas.draw_line(at(pair[0]), at(pair[1]), width * PIXELS_PER_UNIT / 2.0, *colour, 1.0);
                }
            }
            SceneShape::Dots { points, colour, radius } => {
                for point in points {
                    canvas.draw_line(at(*point), at(*point), radius * PIXELS_PER_UNIT, *colour, 0.7);
                }
            }
            SceneShape::Box { x, y, width, height, colour } => {
                let (left, top) = at((*x, *y));
                let (right, bottom) = at((x + width, y + height));
                for y in top.round() as i64..bottom.round() as i64 {
                    for x in left.round() as i64..right.round() as i64 {
                        canvas.blend_pixel(x, y, *colour, 1.0);
                    }
                }
            }
            SceneShape::Text { x, y, text, colour, anchor, is_large } => {
                let size = if *is_large { 3 } else { 2 };
                let width = (text.chars().count() * (WIDTH + 1) * size) as f64;
                let (x, y) = at((*x, *y));
                let x = match anchor {
                    TextAnchor::Start => x,
                    TextAnchor::Middle => x - width / 2.0,
                    TextAnchor::End => x - width,
                };
                canvas.draw_text(x, y, text, *colour, size);
            }
        }
    }
    encode_file(&canvas)
}

fn write_chunk(out: &mut Vec<u8>, kind: &[u8; 4], bytes: &[u8]) {
    // An image is far smaller than 4 GiB: the number of panels bounds its size.
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(bytes);
    out.extend_from_slice(kind);
    out.extend_from_slice(bytes);
    out.extend_from_slice(&sum.sum().to_be_bytes());
}

fn encode_file(canvas: &PixelCanvas) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut head = Vec::new();
    head.extend_from_slice(&(canvas.width as u32).to_be_bytes());
    head.extend_from_slice(&(canvas.height as u32).to_be_bytes());
    // 8 bits per channel, RGB, the only methods of compression and filtering, not interlaced.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    write_chunk(&mut out, b"IHDR", &head);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in canvas.pixels.chunks(canvas.width * 3) {
        // Writing to memory cannot fail.
        let _ = packed.write_all(&[0]).and_then(|()| packed.write_all(row));
    }
    write_chunk(&mut out, b"IDAT", &packed.finish().unwrap_or_default());
    write_chunk(&mut out, b"IEND", &[]);
    out
}

/// Decodes the rows of a file that [`write`] made.
#[cfg(test)]
pub fn unpacked(png: &[u8]) -> Vec<u8> {
    use std::io::Read as _;
    let at = png.windows(4).position(|four| four == b"IDAT").unwrap();
    let length = u32::from_be_bytes([png[at - 4], png[at - 3], png[at - 2], png[at - 1]]) as usize;
    let mut pixels = Vec::new();
    flate2::read::ZlibDecoder::new(&png[at + 4..at + 4 + length]).read_to_end(&mut pixels).unwrap();
    pixels
}
