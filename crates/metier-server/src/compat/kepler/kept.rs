//! What a client of the estimator that takes its time has sent so far, within what all such clients may hold together.
//!
//! What is too much is thrown away and read on, so that the client gets its refusal; what is held is counted by what it takes, not by what came.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest request that is kept. A hundred containers have 20 kB, and more than a few hundred rows no exporter could read the reply of.
pub const REQUEST_BYTES: usize = 1 << 20;
/// What all slow clients hold together.
pub const TOGETHER_BYTES: usize = 8 << 20;

/// Why a request was thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thrown {
    /// It is larger than any that is kept.
    Large,
    /// Others hold all that there is room for.
    Crowded,
}

impl Thrown {
    /// What its client is told.
    pub fn why(self) -> String {
        match self {
            Self::Large => format!("failed to handle request: it has more than {REQUEST_BYTES} bytes"),
            Self::Crowded => {
                "failed to handle request: too many clients send large requests at once; try again"
                    .to_string()
            }
        }
    }
}

/// The bytes of one client.
pub struct Kept<'a> {
    bytes: Vec<u8>,
    /// How much of what all hold is its own.
    own: usize,
    together: &'a AtomicUsize,
    thrown: Option<Thrown>,
    /// How much was read, also of what was thrown away.
    pub read: usize,
    /// The last byte that is not blank.
    last: Option<u8>,
}

impl<'a> Kept<'a> {
    /// With what came already.
    pub fn new(came: &[u8], together: &'a AtomicUsize) -> Self {
        let mut kept = Self { bytes: Vec::new(), own: 0, together, thrown: None, read: 0, last: None };
        kept.add(came);
        kept
    }

    /// Takes a piece more.
    pub fn add(&mut self, piece: &[u8]) {
        self.read += piece.len();
        self.last = piece.iter().rev().find(|byte| !byte.is_ascii_whitespace()).copied().or(self.last);
        if self.thrown.is_some() {
            return;
        }
        let length = self.bytes.len() + piece.len();
        if length > REQUEST_BYTES {
            return self.throw(Thrown::Large);
        }
        if length > self.bytes.capacity() {
            let room = length.max(2 * self.bytes.capacity()).min(REQUEST_BYTES);
            if !self.claim(room - self.own) {
                return self.throw(Thrown::Crowded);
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }

    fn claim(&mut self, more: usize) -> bool {
        let within = |held: usize| held.checked_add(more).filter(|held| *held <= TOGETHER_BYTES);
        let is_given = self.together.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok();
        self.own += if is_given { more } else { 0 };
        is_given
    }

    fn throw(&mut self, why: Thrown) {
        self.bytes = Vec::new();
        self.together.fetch_sub(std::mem::take(&mut self.own), Ordering::SeqCst);
        self.thrown = Some(why);
    }

    /// What came, as far as it is kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Why it is not kept, where it is not.
    pub fn thrown(&self) -> Option<Thrown> {
        self.thrown
    }

    /// Whether its last byte that is not blank closes an object.
    pub fn looks_whole(&self) -> bool {
        self.last == Some(b'}')
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.together.fetch_sub(self.own, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_hold_no_more_than_there_is_room_for() {
        let together = AtomicUsize::new(0);
        let piece = vec![b'1'; 900 << 10];
        let all: Vec<Kept<'_>> = (0..20).map(|_| Kept::new(&piece, &together)).collect();
        let held: usize = all.iter().map(|kept| kept.bytes.capacity()).sum();
        assert!(held <= TOGETHER_BYTES && held == together.load(Ordering::SeqCst), "{held}");
        let crowded = all.iter().filter(|kept| kept.thrown() == Some(Thrown::Crowded)).count();
        assert_eq!((crowded, all.len() - crowded), (11, 9));
        drop(all);
        assert_eq!(together.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_too_large_is_read_on_and_holds_nothing() {
        let together = AtomicUsize::new(0);
        let mut kept = Kept::new(b"{", &together);
        for _ in 0..3 {
            kept.add(&vec![b'1'; REQUEST_BYTES / 2]);
        }
        kept.add(b"} \n");
        assert_eq!((kept.thrown(), kept.bytes().len()), (Some(Thrown::Large), 0));
        assert!(kept.looks_whole() && kept.read > REQUEST_BYTES);
        assert_eq!(together.load(Ordering::SeqCst), 0);
    }
}
