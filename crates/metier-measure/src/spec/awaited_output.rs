//! A text that a container is expected to print, and the time when it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metier_linux::wakeup::monotonic_ns;

/// Only this much of a line is searched.
const MAX_LINE_BYTES: usize = 16 << 10;

/// A text to find in a container's output lines. Copies share the result.
#[derive(Debug, Clone, Default)]
pub struct AwaitedOutput {
    text: String,
    seen_ns: Arc<AtomicU64>,
}

impl AwaitedOutput {
    /// A text that has not been seen yet.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_string(), seen_ns: Arc::default() }
    }

    /// Time of the first occurrence, by the monotonic clock.
    pub fn seen_ns(&self) -> Option<u64> {
        Some(self.seen_ns.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }
}

impl PartialEq for AwaitedOutput {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for AwaitedOutput {}

/// Searches one stream for the text.
#[derive(Debug)]
pub(crate) struct OutputWatcher {
    awaited: AwaitedOutput,
    line: Vec<u8>,
}

impl OutputWatcher {
    pub fn new(awaited: &AwaitedOutput) -> Self {
        Self { awaited: awaited.clone(), line: Vec::new() }
    }

    /// Searches the next piece of the stream, wherever it is split.
    pub fn scan(&mut self, piece: &[u8]) {
        if self.awaited.seen_ns().is_some() {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if contains(&self.line, self.awaited.text.as_bytes()) {
                let _ = self.awaited.seen_ns.compare_exchange(
                    0,
                    monotonic_ns(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                return;
            }
            if part.ends_with(b"\n") {
                self.line.clear();
            }
        }
    }
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && line.windows(text.len()).any(|part| part == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_seen(pieces: &[&str]) -> bool {
        let awaited = AwaitedOutput::new("now ready");
        let mut eye = OutputWatcher::new(&awaited);
        pieces.iter().for_each(|piece| eye.scan(piece.as_bytes()));
        awaited.seen_ns().is_some()
    }

    #[test]
    fn a_text_is_seen_wherever_a_piece_ends_but_not_across_lines() {
        assert!(is_seen(&["server: now ready on 80\n"]));
        assert!(is_seen(&["a\nb now r", "ea", "dy"]), "before its line ends");
        assert!(!is_seen(&["now \nready\n", "now", "\n ready"]));
        assert!(!is_seen(&[]));
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory() {
        let awaited = AwaitedOutput::new("x!");
        let mut eye = OutputWatcher::new(&awaited);
        (0..100).for_each(|_| eye.scan(&[b'x'; 4096]));
        assert!(eye.line.len() <= MAX_LINE_BYTES);
        eye.scan(b"!");
        assert_eq!(awaited.seen_ns(), None, "behind the end of what is looked at");
        eye.scan(b"\nx!");
        assert!(awaited.seen_ns().is_some(), "the next line is looked at again");
    }
}
