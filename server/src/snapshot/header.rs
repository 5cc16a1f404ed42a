use minicbor::{Decode, Encode};

/// Version of the format. Incremented for changes that an older server could not read, but not for records or
/// fields that it can skip.
pub(super) const MAJOR: u16 = 1;

/// The first record, which all later versions must be able to read.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct SnapshotHeader {
    #[n(0)]
    pub(super) major: u16,
    /// When the file was written, in wall-clock milliseconds since 1970.
    #[n(1)]
    pub(super) written_ms: u64,
    /// Version of the server that wrote the file.
    #[n(2)]
    pub(super) server: String,
    #[n(3)]
    pub(super) next_channel: u64,
    /// Number of connections accepted so far.
    #[n(4)]
    pub(super) connections: u64,
    /// Name under which the users of the server are registered in Redis.
    #[cbor(n(5), default)]
    pub(super) users: Option<String>,
}

/// The last record: the number of logs and sessions in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct SnapshotEnd {
    #[n(0)]
    pub(super) logs: u64,
    #[n(1)]
    pub(super) sessions: u64,
}
