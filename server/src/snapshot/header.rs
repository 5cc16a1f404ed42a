use minicbor::{Decode, Encode};

/// Changes when an older server could not read the file. What it can skip does not count.
pub(super) const MAJOR: u16 = 1;

/// The first record: all that a later version must be able to read.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Header {
    #[n(0)]
    pub(super) major: u16,
    /// When it was written, by the wall clock.
    #[n(1)]
    pub(super) written_ms: u64,
    /// The version of the server that wrote it.
    #[n(2)]
    pub(super) server: String,
    /// The number of the next channel.
    #[n(3)]
    pub(super) next_channel: u64,
    /// Connections so far.
    #[n(4)]
    pub(super) connections: u64,
}

/// The last record: how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct End {
    #[n(0)]
    pub(super) logs: u64,
    #[n(1)]
    pub(super) sessions: u64,
}
