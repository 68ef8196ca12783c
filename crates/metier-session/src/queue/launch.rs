//! How the measuring program is started for a session.

use std::ffi::OsString;
use std::path::PathBuf;

/// How the measuring program is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: this very one.
    pub program: PathBuf,
    /// Flags that lead it to the same store and settings.
    pub flags: Vec<OsString>,
    /// Variables of ours that neither it nor what it measures may see: those with secrets.
    pub hidden: Vec<OsString>,
}
