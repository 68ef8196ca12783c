//! A text that a container is awaited to print, and when it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metier_linux::wake::monotonic_ns;

/// Of a line longer than this the rest is not looked at.
const LONGEST_LINE: usize = 16 << 10;

/// A text in a line of what a container prints. Copies share what was seen.
#[derive(Debug, Clone, Default)]
pub struct Awaited {
    text: String,
    seen_ns: Arc<AtomicU64>,
}

impl Awaited {
    /// This text, which has not been seen yet.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_string(), seen_ns: Arc::default() }
    }

    /// When it was seen first, on the monotonic clock.
    pub fn seen_ns(&self) -> Option<u64> {
        Some(self.seen_ns.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }
}

impl PartialEq for Awaited {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Awaited {}

/// Looks through one stream for it.
#[derive(Debug)]
pub(crate) struct Eye {
    awaited: Awaited,
    line: Vec<u8>,
}

impl Eye {
    pub fn of(awaited: &Awaited) -> Self {
        Self { awaited: awaited.clone(), line: Vec::new() }
    }

    /// The next piece of the stream, wherever it was cut.
    pub fn look(&mut self, piece: &[u8]) {
        if self.awaited.seen_ns().is_some() {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST_LINE.saturating_sub(self.line.len());
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
        let awaited = Awaited::new("now ready");
        let mut eye = Eye::of(&awaited);
        pieces.iter().for_each(|piece| eye.look(piece.as_bytes()));
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
        let awaited = Awaited::new("x!");
        let mut eye = Eye::of(&awaited);
        (0..100).for_each(|_| eye.look(&[b'x'; 4096]));
        assert!(eye.line.len() <= LONGEST_LINE);
        eye.look(b"!");
        assert_eq!(awaited.seen_ns(), None, "behind the end of what is looked at");
        eye.look(b"\nx!");
        assert!(awaited.seen_ns().is_some(), "the next line is looked at again");
    }
}
