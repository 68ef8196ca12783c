//! The device's lock: a file in the runtime folder that one worker at a time has locked. The kernel gives it back when
//! its holder ends, however that happens; children do not inherit it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::{QueueError, system};

/// The lock, while it is held.
#[derive(Debug)]
pub(super) struct DeviceLock {
    #[allow(dead_code, reason = "kept for its drop")]
    file: File,
}

impl DeviceLock {
    /// `None` while another worker has it.
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
