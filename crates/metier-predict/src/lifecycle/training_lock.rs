//! Marks that this process measures training data, so that no other process trains meanwhile and
//! disturbs the measurement.
//!
//! The mark is in the store, with the process identity as in run records; marks of killed processes
//! are ignored.

use metier_device::process_owner;
use metier_linux::KernelRoots;
use metier_store::{OwnerProcess, RecordStore, StoredTrial};
use metier_types::Device;

use super::LifecycleError;

/// The mark; it is removed on drop.
#[derive(Debug)]
pub struct TrainingLock<'a> {
    store: &'a RecordStore,
    device: &'a Device,
    mark: String,
}

impl<'a> TrainingLock<'a> {
    /// Marks that this process runs trials of a kind on a device.
    pub fn acquire(store: &'a RecordStore, device: &'a Device, kind: &str) -> Result<Self, LifecycleError> {
        let own = process_owner::current_owner(&KernelRoots::default(), device);
        let record = serde_json::to_string(&own).map_err(LifecycleError::Lock)?;
        let lock = Self { store, device, mark: mark_of(kind) };
        let mut marks = lock.other_marks()?;
        marks.push(StoredTrial { key: key(&own), record });
        lock.replace(&marks)?;
        Ok(lock)
    }

    /// Marks of other live processes.
    fn other_marks(&self) -> Result<Vec<StoredTrial>, LifecycleError> {
        let roots = KernelRoots::default();
        let own = key(&process_owner::current_owner(&roots, self.device));
        let mut marks = self.store.trials(&self.device.id, &self.mark)?;
        marks.retain(|mark| mark.key != own && is_held(&roots, mark));
        Ok(marks)
    }

    fn replace(&self, marks: &[StoredTrial]) -> Result<(), LifecycleError> {
        self.store.remove_trials(&self.device.id, &self.mark)?;
        Ok(self.store.put_trials(&self.device.id, &self.mark, marks)?)
    }
}

impl Drop for TrainingLock<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.other_marks().and_then(|left| self.replace(&left)) {
            // The mark becomes void when this process ends.
            tracing::debug!(%error, "the mark of making trials stays");
        }
    }
}

/// Whether a live process runs trials of a kind on a device.
pub fn is_held_by_any(store: &RecordStore, device: &Device, kind: &str) -> Result<bool, LifecycleError> {
    let roots = KernelRoots::default();
    Ok(store.trials(&device.id, &mark_of(kind))?.iter().any(|mark| is_held(&roots, mark)))
}

/// Trial kind of these marks.
fn mark_of(kind: &str) -> String {
    format!("{kind}-under-way")
}

fn is_held(roots: &KernelRoots, mark: &StoredTrial) -> bool {
    let owner: Option<OwnerProcess> = serde_json::from_str(&mark.record).ok();
    owner.is_some_and(|owner| process_owner::is_owner_alive(roots, &owner))
}

fn key(owner: &OwnerProcess) -> String {
    format!("{}-{}", owner.pid, owner.started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::run_trials::tests::Place;

    #[test]
    fn the_lock_is_held_until_it_is_dropped_and_a_dead_process_holds_none() {
        let place = Place::new();
        let (store, device) = (&place.store, &place.device);
        assert!(!is_held_by_any(store, device, "latency").unwrap());
        let held = TrainingLock::acquire(store, device, "latency").unwrap();
        assert!(is_held_by_any(store, device, "latency").unwrap());
        drop(held);
        assert!(!is_held_by_any(store, device, "latency").unwrap());
        // A mark of an earlier boot, and one whose process id was reused.
        let own = process_owner::current_owner(&KernelRoots::default(), device);
        for gone in
            [OwnerProcess { boot: "before".into(), ..own.clone() }, OwnerProcess { started: 1, ..own }]
        {
            let record = serde_json::to_string(&gone).unwrap();
            store
                .put_trials(&device.id, "latency-under-way", &[StoredTrial { key: "1".into(), record }])
                .unwrap();
            assert!(!is_held_by_any(store, device, "latency").unwrap(), "{gone:?}");
        }
    }
}
