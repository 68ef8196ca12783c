//! Buffer for the request of a slow estimator client, within a bound that all such clients share.
//!
//! An oversized request is discarded but still read to its end, so that the client gets its
//! refusal. The shared bound counts the buffers' capacity, not the received bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest request that is buffered. A hundred containers have 20 kB. No exporter could read the
/// reply to much more than a few hundred rows.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Bytes of each request that the shared bound does not count, so that large requests of some keep
/// out no ordinary ones of others. The number of clients bounds them.
const FREE_BYTES: usize = 32 << 10;
/// Shared bound of all slow clients.
pub const MAX_SHARED_BYTES: usize = 8 << 20;

/// Why a request was discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardReason {
    /// It exceeds the bound of one request.
    RequestTooLarge,
    /// The shared bound is exhausted.
    BuffersFull,
}

impl DiscardReason {
    /// The message for the client.
    pub fn message(self) -> String {
        match self {
            Self::RequestTooLarge => {
                format!("failed to handle request: it has more than {MAX_REQUEST_BYTES} bytes")
            }
            Self::BuffersFull => {
                "failed to handle request: too many clients send large requests at once; try again"
                    .to_string()
            }
        }
    }
}

/// The bytes of one client.
pub struct RequestBuffer {
    bytes: Vec<u8>,
    /// Its share of the common bound.
    own: usize,
    together: Arc<AtomicUsize>,
    thrown: Option<DiscardReason>,
    /// Bytes read, discarded ones included.
    pub read: usize,
    /// The last non-blank byte.
    last: Option<u8>,
}

impl RequestBuffer {
    /// A buffer that starts with these bytes.
    pub fn new(came: &[u8], together: &Arc<AtomicUsize>) -> Self {
        let mut buffer =
            Self { bytes: Vec::new(), own: 0, together: together.clone(), thrown: None, read: 0, last: None };
        buffer.add(came);
        buffer
    }

    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.read += piece.len();
        self.last = piece.iter().rev().find(|byte| !byte.is_ascii_whitespace()).copied().or(self.last);
        if self.thrown.is_some() {
            return;
        }
        let length = self.bytes.len() + piece.len();
        if length > MAX_REQUEST_BYTES {
            return self.discard(DiscardReason::RequestTooLarge);
        }
        if length > self.bytes.capacity() {
            let room = length.max(2 * self.bytes.capacity()).min(MAX_REQUEST_BYTES);
            if !self.reserve_bytes(room.saturating_sub(FREE_BYTES) - self.own) {
                return self.discard(DiscardReason::BuffersFull);
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }

    fn reserve_bytes(&mut self, more: usize) -> bool {
        let within = |held: usize| held.checked_add(more).filter(|held| *held <= MAX_SHARED_BYTES);
        let is_given = self.together.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok();
        self.own += if is_given { more } else { 0 };
        is_given
    }

    fn discard(&mut self, why: DiscardReason) {
        self.bytes = Vec::new();
        self.together.fetch_sub(std::mem::take(&mut self.own), Ordering::SeqCst);
        self.thrown = Some(why);
    }

    /// The buffered bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Why the request was discarded, if it was.
    pub fn discard_reason(&self) -> Option<DiscardReason> {
        self.thrown
    }

    /// Whether the last non-blank byte closes an object.
    pub fn ends_with_brace(&self) -> bool {
        self.last == Some(b'}')
    }
}

impl Drop for RequestBuffer {
    fn drop(&mut self) {
        self.together.fetch_sub(self.own, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_hold_no_more_than_there_is_room_for() {
        let together = Arc::new(AtomicUsize::new(0));
        let piece = vec![b'1'; 900 << 10];
        let all: Vec<RequestBuffer> = (0..20).map(|_| RequestBuffer::new(&piece, &together)).collect();
        let held: usize = all.iter().map(|buffer| buffer.bytes.capacity()).sum();
        let counted = held - 9 * FREE_BYTES;
        assert!(counted <= MAX_SHARED_BYTES && counted == together.load(Ordering::SeqCst), "{held}");
        let crowded =
            all.iter().filter(|buffer| buffer.discard_reason() == Some(DiscardReason::BuffersFull)).count();
        assert_eq!((crowded, all.len() - crowded), (11, 9));
        let small = RequestBuffer::new(&piece[..FREE_BYTES], &together);
        assert_eq!(small.discard_reason(), None, "an ordinary request has room");
        drop((all, small));
        assert_eq!(together.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_too_large_is_read_on_and_holds_nothing() {
        let together = Arc::new(AtomicUsize::new(0));
        let mut buffer = RequestBuffer::new(b"{", &together);
        for _ in 0..3 {
            buffer.add(&vec![b'1'; MAX_REQUEST_BYTES / 2]);
        }
        buffer.add(b"} \n");
        assert_eq!(
            (buffer.discard_reason(), buffer.bytes().len()),
            (Some(DiscardReason::RequestTooLarge), 0)
        );
        assert!(buffer.ends_with_brace() && buffer.read > MAX_REQUEST_BYTES);
        assert_eq!(together.load(Ordering::SeqCst), 0);
    }
}
