use std::path::PathBuf;
use std::time::Duration;

use encke_base::outbound::{Target, Trust};

/// Settings of the issuer's key set.
#[derive(Clone, Debug)]
pub(crate) struct IssuerSettings {
    pub(crate) source: KeySource,
    /// Interval between periodic fetches.
    pub(crate) refresh: Duration,
    /// Timeout of a fetch.
    pub(crate) timeout: Duration,
}

/// Location of the key set.
#[derive(Clone, Debug)]
pub(crate) enum KeySource {
    File(PathBuf),
    /// URL, and the authorities trusted for it.
    Url(Target, Box<Trust>),
}
