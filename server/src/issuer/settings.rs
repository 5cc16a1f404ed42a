use std::path::PathBuf;
use std::time::Duration;

use crate::outbound::{Target, Trust};

/// How the issuer's keys are known.
#[derive(Clone, Debug)]
pub(crate) struct IssuerSettings {
    pub(crate) source: KeySource,
    /// They are read again after so long.
    pub(crate) refresh: Duration,
    /// How long to read them may take.
    pub(crate) timeout: Duration,
}

/// Where they are.
#[derive(Clone, Debug)]
pub(crate) enum KeySource {
    File(PathBuf),
    /// And whose certificates count there.
    Url(Target, Box<Trust>),
}
