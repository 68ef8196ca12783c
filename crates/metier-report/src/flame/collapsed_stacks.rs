//! Collapsed stacks: parsed into a tree, and written in sorted order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum stack depth; deeper frames are counted for the last kept one.
pub const MAX_DEPTH: usize = 512;
/// Maximum number of distinct tree positions over all stacks.
pub const MOST_FRAMES: usize = 1_000_000;
/// Maximum length of a frame name.
const MAX_NAME_CHARS: usize = 1000;

/// Why stacks cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// A line is not a collapsed stack.
    #[error("line {line}: {got:?} is no collapsed stack; want `frame;frame;frame COUNT`")]
    Line {
        /// Line number, from 1.
        line: usize,
        got: String,
    },
    /// There are no stacks.
    #[error("there are no stacks in it; want lines of `frame;frame;frame COUNT`")]
    Empty,
    /// There are too many frames to draw.
    #[error(
        "there are more than {MOST_FRAMES} different frames by place in it; want a shorter or coarser profile"
    )]
    TooMany,
}

/// A frame at its position in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackFrame {
    pub name: String,
    /// Samples in this frame and its callees.
    pub total: u64,
    /// Samples in this frame alone.
    pub own: u64,
    /// Callees by name: indices into [`CollapsedStacks::frames`].
    pub children: BTreeMap<String, usize>,
}

/// All stacks as one tree; the first frame is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollapsedStacks {
    /// The frames; the first is the root.
    pub frames: Vec<StackFrame>,
    /// Samples whose stack was truncated.
    pub cut: u64,
}

impl CollapsedStacks {
    /// Parses the text form. Invalid UTF-8 is replaced; empty lines and lines that begin with `#`
    /// are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, StackError> {
        let mut stacks =
            Self { frames: vec![StackFrame { name: "all".to_string(), ..StackFrame::default() }], cut: 0 };
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
            stacks.add_stack(path, count)?;
        }
        if stacks.total_samples() == 0 {
            return Err(StackError::Empty);
        }
        Ok(stacks)
    }

    pub fn total_samples(&self) -> u64 {
        self.frames.first().map_or(0, |root| root.total)
    }

    fn add_stack(&mut self, path: &str, count: u64) -> Result<(), StackError> {
        let mut at = 0;
        self.frames[0].total = self.frames[0].total.saturating_add(count);
        for (depth, name) in path.split(';').enumerate() {
            if depth >= MAX_DEPTH {
                self.cut += count;
                break;
            }
            let name = match name.trim() {
                "" => "?",
                name => name.char_indices().nth(MAX_NAME_CHARS).map_or(name, |(end, _)| &name[..end]),
            };
            at = match self.frames[at].children.get(name) {
                Some(child) => *child,
                None => {
                    if self.frames.len() >= MOST_FRAMES {
                        return Err(StackError::TooMany);
                    }
                    let child = self.frames.len();
                    self.frames.push(StackFrame { name: name.to_string(), ..StackFrame::default() });
                    self.frames[at].children.insert(name.to_string(), child);
                    child
                }
            };
            self.frames[at].total = self.frames[at].total.saturating_add(count);
        }
        self.frames[at].own = self.frames[at].own.saturating_add(count);
        Ok(())
    }

    /// Writes the text form: one line per stack, sorted.
    pub fn to_folded_text(&self) -> String {
        let mut text = String::new();
        let mut path: Vec<&str> = Vec::new();
        self.write_subtree(0, &mut path, &mut text);
        text
    }

    fn write_subtree<'a>(&'a self, at: usize, path: &mut Vec<&'a str>, text: &mut String) {
        let frame = &self.frames[at];
        if frame.own > 0 && !path.is_empty() {
            let _ = writeln!(text, "{} {}", path.join(";"), frame.own);
        }
        // MAX_DEPTH bounds the depth, and so the recursion.
        for child in frame.children.values() {
            path.push(&self.frames[*child].name);
            self.write_subtree(*child, path, text);
            path.pop();
        }
    }
}
