//! Sources of application messages of a run.

use std::path::PathBuf;

use crate::http_get::HttpUrl;

/// Sources of application messages that a run asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenSources {
    /// The Waggle live socket.
    pub socket: bool,
    /// Path of the socket on this host, instead of metier's own.
    pub socket_path: Option<PathBuf>,
    /// pywaggle's log folder.
    pub pywaggle: bool,
    /// Lines on a descriptor and a FIFO.
    pub lines: bool,
    pub scrape: Vec<String>,
}

impl ListenSources {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first defect, if any: the field, the given value and the accepted ones.
    pub fn find_defect(&self) -> Option<(&'static str, String, &'static str)> {
        if self.scrape.len() > 16 {
            return Some(("scrape", format!("{} addresses", self.scrape.len()), "at most 16"));
        }
        if let Some(path) = self.socket_path.as_ref().filter(|path| !path.is_absolute()) {
            return Some(("listen", format!("socket={}", path.display()), "an absolute path"));
        }
        self.scrape.iter().find_map(|address| {
            HttpUrl::parse(address).err().map(|want| ("scrape", format!("{address:?}"), want))
        })
    }
}
