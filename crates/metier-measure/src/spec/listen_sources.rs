//! By which ways a run's application is listened to.

use std::path::PathBuf;

use crate::http_get::HttpUrl;

/// The sources of application messages that a run asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenSources {
    /// On the Waggle live socket.
    pub socket: bool,
    /// At this path instead of one of our own, on this host.
    pub socket_path: Option<PathBuf>,
    /// To pywaggle's log folder.
    pub pywaggle: bool,
    /// To lines on a descriptor and a FIFO.
    pub lines: bool,
    pub scrape: Vec<String>,
}

impl ListenSources {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is wrong with it, if anything: the field, what was given and what would be right.
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
