use std::io;

use super::header::MAJOR;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file is not a snapshot")]
    NotASnapshot,
    #[error("written by a newer server: its version is {major}, this server reads {MAJOR}")]
    Newer {
        /// Version of the format.
        major: u16,
    },
    /// A record is invalid.
    #[error("the record at byte {at}: {problem}")]
    Damaged {
        /// Offset of the record in bytes.
        at: u64,
        problem: String,
    },
}

impl LoadError {
    /// Extension given to a file that is set aside because of this error.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "newer",
            Self::Io(_) | Self::NotASnapshot | Self::Damaged { .. } => "damaged",
        }
    }
}
