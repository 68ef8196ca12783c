//! One memory budget for all request bodies of a process.
//!
//! The first [`FREE_BYTES`] of each body are bounded by the number of requests. What is above
//! comes from a common budget. A body that no longer fits there may go on as the one large body of
//! the process, which must not pause. Everything else is refused until memory is given back, which
//! happens when the last reader of a body drops it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use metier_types::LockUnpoisoned;

/// Bytes of each body that the budget does not count.
pub const FREE_BYTES: usize = 64 << 10;

/// The memory of all request bodies.
#[derive(Debug)]
pub struct BodyBudget {
    common: usize,
    state: Mutex<BudgetState>,
    /// Bytes given back since they were last asked for.
    released: AtomicUsize,
}

#[derive(Debug, Default)]
struct BudgetState {
    held: usize,
    has_large: bool,
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExhausted;

/// The part of the budget that one body holds.
#[derive(Debug)]
pub struct BodyPermit {
    budget: Arc<BodyBudget>,
    bytes: usize,
    is_large: bool,
}

impl BodyBudget {
    /// So many bytes for all bodies, beside one large one.
    pub fn new(common: usize) -> Self {
        Self { common, state: Mutex::default(), released: AtomicUsize::new(0) }
    }

    /// The permit of a new body, of no bytes yet.
    pub fn new_permit(self: &Arc<Self>) -> BodyPermit {
        BodyPermit { budget: self.clone(), bytes: 0, is_large: false }
    }

    /// Whether so many bytes were given back; then counting begins anew.
    pub fn released_at_least(&self, bytes: usize) -> bool {
        self.released
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| (sum >= bytes).then_some(0))
            .is_ok()
    }

    /// Counts memory that is given back together with that of bodies.
    pub fn note_released(&self, bytes: usize) {
        self.released.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl BodyPermit {
    /// Extends the permit to a body of so many bytes.
    pub fn grow_to(&mut self, length: usize) -> Result<(), BudgetExhausted> {
        let bytes = length.saturating_sub(FREE_BYTES);
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let mut state = self.budget.state.lock_unpoisoned();
        match self.is_large {
            true => {}
            false if state.held + more <= self.budget.common => state.held += more,
            false if state.has_large => return Err(BudgetExhausted),
            false => {
                state.has_large = true;
                state.held -= self.bytes;
                self.is_large = true;
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Whether this is the large body.
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// The body; the permit is given back with its last copy.
    pub fn attach(self, body: Vec<u8>) -> Bytes {
        Bytes::from_owner(PermittedBody { body, _permit: self })
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock_unpoisoned();
        match self.is_large {
            true => state.has_large = false,
            false => state.held -= self.bytes,
        }
        self.budget.note_released(self.bytes);
    }
}

/// The bytes go first, then their permit.
struct PermittedBody {
    body: Vec<u8>,
    _permit: BodyPermit,
}

impl AsRef<[u8]> for PermittedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn bodies_share_a_budget_beside_one_large_body() {
        let budget = Arc::new(BodyBudget::new(4 * MIB));
        let take = |length: usize| {
            let mut permit = budget.new_permit();
            permit.grow_to(length).map(|()| permit)
        };
        let first = take(3 * MIB).unwrap();
        let second = take(3 * MIB).unwrap();
        assert!(!first.is_large() && second.is_large());
        assert_eq!(take(3 * MIB).unwrap_err(), BudgetExhausted);
        let small = take(FREE_BYTES).unwrap();
        drop(second);
        let mut third = take(MIB).unwrap();
        third.grow_to(100 * MIB).unwrap();
        assert!(third.is_large(), "a body that grows out of the budget goes on alone");
        drop((first, third, small));
        let state = budget.state.lock_unpoisoned();
        assert_eq!((state.held, state.has_large), (0, false));
    }

    #[test]
    fn memory_is_held_until_the_last_copy_is_dropped() {
        let budget = Arc::new(BodyBudget::new(MIB));
        let mut permit = budget.new_permit();
        permit.grow_to(MIB).unwrap();
        let body = permit.attach(vec![7; MIB]);
        let part = body.slice(10..20);
        drop(body);
        assert!(!budget.released_at_least(1));
        assert_eq!(&part[..], &[7; 10]);
        drop(part);
        assert!(budget.released_at_least(MIB - FREE_BYTES) && !budget.released_at_least(1));
    }
}
