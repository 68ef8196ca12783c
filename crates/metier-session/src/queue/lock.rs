//! The device lock: a file in the runtime folder, locked by one worker at a time. The kernel
//! releases the lock when its holder ends for any reason. Children do not inherit it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::{QueueError, system};

/// The held lock; dropping it releases it.
#[derive(Debug)]
pub(super) struct DeviceLock {
    #[allow(dead_code, reason = "held for its drop")]
    file: File,
}

impl DeviceLock {
    /// Returns `None` while another worker holds the lock.
    pub fn try_take(runtime: &Path) -> Result<Option<Self>, QueueError> {
        let path = runtime.join("device.lock");
        let failed = || system(format!("locking this device with {}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(runtime).map_err(failed())?;
        let mut options = OpenOptions::new();
        let file =
            options.create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(failed())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed()(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("deep/er");
        let held = DeviceLock::try_take(&runtime).unwrap().unwrap();
        assert!(DeviceLock::try_take(&runtime).unwrap().is_none());
        drop(held);
        assert!(DeviceLock::try_take(&runtime).unwrap().is_some());
    }
}
