//! The output of a session: the beginning as it arrives and the end after the session is over.
//! Bytes between them are dropped and counted.

use std::collections::VecDeque;

/// Bytes stored from the beginning.
pub(super) const MAX_HEAD_BYTES: usize = 1 << 20;
/// Bytes stored from the end, once the beginning is full.
const MAX_TAIL_BYTES: usize = 64 << 10;
/// Most recent bytes, searched for the last message.
const RECENT_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct SessionLogBuffer {
    fresh: Vec<u8>,
    taken: usize,
    tail: VecDeque<u8>,
    recent: VecDeque<u8>,
    left_out: u64,
}

impl SessionLogBuffer {
    /// Appends printed bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = MAX_HEAD_BYTES - self.taken - self.fresh.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.fresh.extend_from_slice(head);
        self.left_out += keep(&mut self.tail, rest, MAX_TAIL_BYTES);
        keep(&mut self.recent, bytes, RECENT_BYTES);
    }

    /// Takes the bytes that were added to the beginning since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.taken += self.fresh.len();
        std::mem::take(&mut self.fresh)
    }

    /// Takes the remaining bytes after the output has ended.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut last = self.take();
        if self.left_out > 0 {
            last.extend_from_slice(
                format!("\n[metier: {} bytes are left out here]\n", self.left_out).as_bytes(),
            );
        }
        last.extend(self.tail.drain(..));
        last
    }

    /// The last line that metier itself printed, without the prefix `metier: `.
    pub fn last_message(&self) -> Option<String> {
        let bytes: Vec<u8> = self.recent.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().rev().find_map(|line| line.strip_prefix("metier: ")).map(str::to_string)
    }
}

/// Appends to a ring of at most `most` bytes. Returns the number of dropped bytes.
fn keep(ring: &mut VecDeque<u8>, bytes: &[u8], most: usize) -> u64 {
    let newest = &bytes[bytes.len().saturating_sub(most)..];
    let old = (ring.len() + newest.len()).saturating_sub(most);
    ring.drain(..old);
    ring.extend(newest);
    (old + bytes.len() - newest.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_log_is_whole() {
        let mut log = SessionLogBuffer::default();
        log.push(b"one\n");
        assert_eq!(log.take(), b"one\n");
        log.push(b"metier: why\nok\n");
        assert_eq!(log.last_message().as_deref(), Some("why"));
        assert_eq!(log.finish(), b"metier: why\nok\n");
        assert_eq!(log.finish(), b"");
    }

    #[test]
    fn a_long_log_keeps_beginning_and_end_and_says_what_is_missing() {
        let mut log = SessionLogBuffer::default();
        let mut bytes = Vec::new();
        for number in 0..40_000u32 {
            log.push(format!("line {number:06} {}\n", "x".repeat(50)).as_bytes());
            if number % 1000 == 0 {
                bytes.extend(log.take());
            }
        }
        bytes.extend(log.finish());
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("line 000000 ") && text.ends_with("x\n"), "beginning");
        assert!(text.contains("line 039999 "), "end");
        let whole = 40_000 * 63;
        let number: usize =
            text.split("[metier: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(number, whole - MAX_HEAD_BYTES - MAX_TAIL_BYTES);
        assert!(text.len() < MAX_HEAD_BYTES + MAX_TAIL_BYTES + 100);
    }
}
