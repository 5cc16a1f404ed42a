//! `auth.jwks`: the token issuer's key set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encke_base::outbound::{Target, Trust};

use super::auth::RawAuth;
use super::validator::{Refused, Validator};
use crate::auth::KeySet;
use crate::issuer::{IssuerSettings, KeySource, read_keys};

const JWKS: &str = "auth.jwks";
const CA: &str = "auth.jwks_ca";
const REFRESH: &str = "auth.jwks_refresh";
/// Minimum of `auth.jwks_refresh`. An issuer might treat more frequent requests as an attack.
const MIN_REFRESH: Duration = Duration::from_secs(10);
/// Maximum time to read the key set. It leaves a client that waits for the key set enough of
/// `limits.handshake_timeout` to complete its handshake.
const MAX_READ_TIMEOUT: Duration = Duration::from_secs(5);

impl Validator<'_> {
    /// Validates the settings of the key set. Returns `None` if no key set is configured. A file is read
    /// immediately, so that errors in the file are detected. A URL is not fetched yet, because the issuer may
    /// be temporarily unavailable.
    pub(super) fn issuer(
        &self,
        raw: &RawAuth,
        handshake_timeout: Duration,
    ) -> Result<Option<(IssuerSettings, Arc<KeySet>)>, Refused> {
        let ca = raw.jwks_ca.as_deref();
        self.require(raw.jwks_refresh.0 >= MIN_REFRESH, REFRESH, "must be at least 10s");
        if raw.jwks.is_empty() {
            self.require(ca.is_none(), CA, "needs auth.jwks");
            return Ok(None);
        }
        let keys = Arc::new(KeySet::default());
        let source = if raw.jwks.contains("://") {
            let target: Target = self.require_ok(JWKS, raw.jwks.parse())?;
            let trust = self.require_ok(CA, Trust::load(target.is_tls(), CA, ca))?;
            KeySource::Url(target, Box::new(trust))
        } else {
            self.require(ca.is_none(), CA, "applies only to a URL with https://");
            let path = PathBuf::from(&raw.jwks);
            let read = read_keys(&path).map_err(|problem| format!("{}: {problem}", path.display()));
            keys.replace(self.require_ok(JWKS, read)?.0);
            KeySource::File(path)
        };
        let timeout = MAX_READ_TIMEOUT.min(handshake_timeout / 2);
        Ok(Some((IssuerSettings { source, refresh: raw.jwks_refresh.0, timeout }, keys)))
    }
}
