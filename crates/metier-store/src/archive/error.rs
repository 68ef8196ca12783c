//! Why an archive cannot be written, checked or imported.

/// A defect of an archive or of its target store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// An error in one line.
    #[error("line {number}")]
    Line {
        /// Line number from 1.
        number: u64,
        source: Box<ArchiveError>,
    },
    /// Invalid content: the field, its value and the expected one.
    #[error("{0}")]
    Content(String),
    #[error(transparent)]
    Store(#[from] crate::Error),
    #[error("cannot read line {number}")]
    Read { number: u64, source: std::io::Error },
    #[error("{0}")]
    Write(#[from] std::io::Error),
    #[error("{0}")]
    Encode(#[from] serde_json::Error),
}

impl ArchiveError {
    /// The error of a line.
    pub(super) fn at(self, number: u64) -> Self {
        Self::Line { number, source: Box::new(self) }
    }
}

/// Returns an error of the content.
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::archive::ArchiveError::Content(format!($($text)*)))
    };
}

pub(super) use refuse;
