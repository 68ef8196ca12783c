//! Locks that stay usable after a panic of a thread that held them.
//!
//! Every lock here guards state that is consistent after each step, so poisoning is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a [`Mutex`] and ignores poisoning.
pub trait LockUnpoisoned<T: ?Sized> {
    /// Like [`Mutex::lock`], but also locks a poisoned mutex.
    fn lock_unpoisoned(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> LockUnpoisoned<T> for Mutex<T> {
    fn lock_unpoisoned(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks an [`RwLock`] and ignores poisoning.
pub trait ShareUnpoisoned<T: ?Sized> {
    /// Like [`RwLock::read`], but also locks a poisoned lock.
    fn read_unpoisoned(&self) -> RwLockReadGuard<'_, T>;
    /// Like [`RwLock::write`], but also locks a poisoned lock.
    fn write_unpoisoned(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T: ?Sized> ShareUnpoisoned<T> for RwLock<T> {
    fn read_unpoisoned(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_unpoisoned(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_holder_panicked_is_taken_with_its_content() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(2));
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _held = (mutex.lock_unpoisoned(), shared.write_unpoisoned());
                panic!("on purpose");
            });
            holder.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned() && shared.is_poisoned());
        *shared.write_unpoisoned() += 1;
        assert_eq!((*mutex.lock_unpoisoned(), *shared.read_unpoisoned()), (1, 3));
    }
}
