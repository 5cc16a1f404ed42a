//! `auth.jwks`: where the issuer of tokens publishes its keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::ConfigError;
use super::auth::RawAuth;
use super::raw::Checks;
use crate::auth::KeySet;
use crate::issuer::{IssuerSettings, KeySource, read_keys};
use crate::outbound::{Target, Trust};

const JWKS: &str = "auth.jwks";
const CA: &str = "auth.jwks_ca";
const REFRESH: &str = "auth.jwks_refresh";
/// The issuer would take a shorter one for an attack.
const SHORTEST_REFRESH: Duration = Duration::from_secs(10);
/// How long reading may take at most. A client that waits for it has that much of its handshake left.
const LONGEST_READ: Duration = Duration::from_secs(5);

impl Checks<'_> {
    /// Nothing, where no keys are published. A file is read at once, so that a mistake in it is seen; an issuer on the network may come later.
    pub(super) fn issuer(
        &self,
        raw: &RawAuth,
        handshake_timeout: Duration,
    ) -> Result<Option<(IssuerSettings, Arc<KeySet>)>, ConfigError> {
        let ca = (!raw.jwks_ca.as_os_str().is_empty()).then_some(&*raw.jwks_ca);
        self.require(raw.jwks_refresh.0 >= SHORTEST_REFRESH, REFRESH, "must be at least 10s")?;
        if raw.jwks.is_empty() {
            self.require(ca.is_none(), CA, "needs auth.jwks")?;
            return Ok(None);
        }
        let keys = Arc::new(KeySet::default());
        let source = if raw.jwks.contains("://") {
            let target: Target = self.sound(JWKS, raw.jwks.parse())?;
            let trust = self.sound(CA, Trust::load(target.is_tls(), CA, ca))?;
            KeySource::Url(target, Box::new(trust))
        } else {
            self.require(ca.is_none(), CA, "is for a URL with https://")?;
            let path = PathBuf::from(&raw.jwks);
            let read = read_keys(&path).map_err(|problem| format!("{}: {problem}", path.display()));
            keys.replace(self.sound(JWKS, read)?.0);
            KeySource::File(path)
        };
        let timeout = LONGEST_READ.min(handshake_timeout / 2);
        Ok(Some((IssuerSettings { source, refresh: raw.jwks_refresh.0, timeout }, keys)))
    }
}
