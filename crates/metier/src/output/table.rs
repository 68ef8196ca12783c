//! Tables for people: columns as wide as their widest cell, two spaces between them, no lines.
//!
//! Widths are terminal cells, without colour codes. Lines have no trailing spaces, so that output
//! can be compared and copied.

use unicode_width::UnicodeWidthStr;

use super::StreamPaint;

#[derive(Debug, Clone)]
pub struct TableCell {
    text: String,
    right: bool,
    style: fn(StreamPaint, &str) -> String,
}

fn unstyled(_: StreamPaint, text: &str) -> String {
    text.to_string()
}

impl TableCell {
    /// A left-aligned text. Control characters and line breaks are replaced: a name must not move
    /// the cursor.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self { text: printable_text(text.as_ref()), right: false, style: unstyled }
    }

    /// A right-aligned number.
    pub fn number(text: impl AsRef<str>) -> Self {
        Self { right: true, ..Self::text(text) }
    }

    /// A right-aligned quantity; a dash where there is none.
    pub fn quantity(value: Option<impl std::fmt::Display>) -> Self {
        Self::number(value.map_or_else(|| "–".to_string(), |value| value.to_string()))
    }

    pub fn styled(self, style: fn(StreamPaint, &str) -> String) -> Self {
        Self { style, ..self }
    }

    /// Limits the width; a cut text ends with a mark.
    pub fn truncated(mut self, width: usize) -> Self {
        if self.text.width() > width {
            let mut text = String::new();
            for c in self.text.chars() {
                let with = format!("{text}{c}");
                if with.width() >= width {
                    break;
                }
                text = with;
            }
            self.text = format!("{}…", text.trim_end());
        }
        self
    }
}

/// Text without control characters.
pub fn printable_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A table under construction.
#[derive(Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<TableCell>>,
    indent: usize,
}

impl TextTable {
    /// A table with a header line.
    pub fn with_header(names: &[&str]) -> Self {
        let mut table = Self::default();
        table.rows.push(names.iter().map(|name| TableCell::text(name).styled(StreamPaint::bold)).collect());
        table
    }

    /// Indents the table by that many spaces.
    pub fn indented(mut self, spaces: usize) -> Self {
        self.indent = spaces;
        self
    }

    pub fn add_row(&mut self, cells: Vec<TableCell>) {
        // A header has the alignment of its column.
        if let (1, Some(header)) = (self.rows.len(), self.rows.first_mut()) {
            header.iter_mut().zip(&cells).for_each(|(name, cell)| name.right = cell.right);
        }
        self.rows.push(cells);
    }

    /// Number of rows, including the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The table as lines.
    pub fn render(&self, paint: StreamPaint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.text.width())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            let mut pending = 0;
            for (cell, width) in row.iter().zip(&widths) {
                let fill = width.saturating_sub(cell.text.width());
                let (before, after) = if cell.right { (fill, 0) } else { (0, fill) };
                if !cell.text.is_empty() {
                    line.push_str(&" ".repeat(pending + before));
                    line.push_str(&(cell.style)(paint, &cell.text));
                    pending = after + 2;
                } else {
                    pending += width + 2;
                }
            }
            text.push_str(line.trim_end_matches(' '));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_terminal_cells_and_lines_have_no_tail() {
        let mut table = TextTable::with_header(&["name", "n", "note"]);
        table.add_row(vec![TableCell::text("数据"), TableCell::number("7"), TableCell::text("")]);
        table.add_row(vec![TableCell::text("x"), TableCell::number("123"), TableCell::text("y")]);
        assert_eq!(table.render(StreamPaint::PLAIN), "name    n  note\n数据    7\nx     123  y\n");
    }

    #[test]
    fn a_name_cannot_move_the_cursor_and_long_ones_are_cut() {
        let mut table = TextTable::default();
        table.add_row(vec![TableCell::text("a\x1b[2Jb\nc"), TableCell::text("abcdefgh").truncated(5)]);
        assert_eq!(table.render(StreamPaint::PLAIN), "a\u{fffd}[2Jb\u{fffd}c  abcd…\n");
    }
}
