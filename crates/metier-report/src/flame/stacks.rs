//! Collapsed stacks: read into a tree, written back in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Deepest stack; frames below are counted for the last one that is kept.
pub const DEEPEST: usize = 512;
/// Most different frames by place, over all stacks.
pub const MOST_FRAMES: usize = 1_000_000;
/// Longest name of a frame that is kept.
const LONGEST_NAME: usize = 1000;

/// Why stacks cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// A line is none.
    #[error("line {line}: {got:?} is no collapsed stack; want `frame;frame;frame COUNT`")]
    Line {
        /// Which one, from 1.
        line: usize,
        got: String,
    },
    /// There is nothing in it.
    #[error("there are no stacks in it; want lines of `frame;frame;frame COUNT`")]
    Empty,
    /// More than can be drawn.
    #[error(
        "there are more than {MOST_FRAMES} different frames by place in it; want a shorter or coarser profile"
    )]
    TooMany,
}

/// A frame at its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    pub name: String,
    /// Samples in it and in what it called.
    pub total: u64,
    /// Samples in it alone.
    pub own: u64,
    /// What it called, by name: places in [`Stacks::frames`].
    pub children: BTreeMap<String, usize>,
}

/// All stacks as one tree; the first frame stands for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stacks {
    /// The frames; the first is the root.
    pub frames: Vec<Frame>,
    /// Samples whose stack was deeper than is kept.
    pub cut: u64,
}

impl Stacks {
    /// Reads the text form. Bytes that are no UTF-8 are replaced; empty lines and lines that begin with `#` are skipped.
    pub fn read(bytes: &[u8]) -> Result<Self, StackError> {
        let mut stacks = Self { frames: vec![Frame { name: "all".to_string(), ..Frame::default() }], cut: 0 };
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches('\r').trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || StackError::Line { line: at + 1, got: line.chars().take(60).collect() };
            let (path, count) = line.rsplit_once([' ', '\t']).ok_or_else(wrong)?;
            let count: u64 = count.parse().map_err(|_| wrong())?;
            if path.trim().is_empty() || count > u64::MAX >> 12 {
                return Err(wrong());
            }
            stacks.add(path, count)?;
        }
        if stacks.total() == 0 {
            return Err(StackError::Empty);
        }
        Ok(stacks)
    }

    pub fn total(&self) -> u64 {
        self.frames.first().map_or(0, |root| root.total)
    }

    fn add(&mut self, path: &str, count: u64) -> Result<(), StackError> {
        let mut at = 0;
        self.frames[0].total = self.frames[0].total.saturating_add(count);
        for (depth, name) in path.split(';').enumerate() {
            if depth >= DEEPEST {
                self.cut += count;
                break;
            }
            let name = match name.trim() {
                "" => "?",
                name => name.char_indices().nth(LONGEST_NAME).map_or(name, |(end, _)| &name[..end]),
            };
            at = match self.frames[at].children.get(name) {
                Some(child) => *child,
                None => {
                    if self.frames.len() >= MOST_FRAMES {
                        return Err(StackError::TooMany);
                    }
                    let child = self.frames.len();
                    self.frames.push(Frame { name: name.to_string(), ..Frame::default() });
                    self.frames[at].children.insert(name.to_string(), child);
                    child
                }
            };
            self.frames[at].total = self.frames[at].total.saturating_add(count);
        }
        self.frames[at].own = self.frames[at].own.saturating_add(count);
        Ok(())
    }

    /// The text form again: one line for each stack, in order.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        let mut path: Vec<&str> = Vec::new();
        self.write(0, &mut path, &mut text);
        text
    }

    fn write<'a>(&'a self, at: usize, path: &mut Vec<&'a str>, text: &mut String) {
        let frame = &self.frames[at];
        if frame.own > 0 && !path.is_empty() {
            let _ = writeln!(text, "{} {}", path.join(";"), frame.own);
        }
        // Depth is bounded by DEEPEST, so the recursion is too.
        for child in frame.children.values() {
            path.push(&self.frames[*child].name);
            self.write(*child, path, text);
            path.pop();
        }
    }
}
