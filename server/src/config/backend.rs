//! `[backend]`.

use std::path::PathBuf;
use std::time::Duration;

use hyper::header::HeaderName;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::ConfigError;
use super::raw::Validator;
use super::units::DurationSetting;
use crate::backend::{BackendSettings, HookKind};
use crate::outbound::{Target, Trust};

const CA: &str = "backend.ca";

#[derive(Deserialize)]
pub(super) struct RawBackend {
    connect: String,
    headers: Vec<String>,
    cookies: Vec<String>,
    subscribe: String,
    publish: String,
    call: String,
    secret: SecretString,
    ca: PathBuf,
    timeout: DurationSetting,
    max_in_flight: usize,
    max_in_flight_per_session: usize,
}

impl Validator<'_> {
    /// Validates `[backend]`. Returns `None` if no hook is configured.
    pub(super) fn backend(
        &self,
        raw: &RawBackend,
        handshake_timeout: Duration,
    ) -> Result<Option<BackendSettings>, ConfigError> {
        let urls = [
            (HookKind::Connect, "backend.connect", &raw.connect),
            (HookKind::Subscribe, "backend.subscribe", &raw.subscribe),
            (HookKind::Publish, "backend.publish", &raw.publish),
            (HookKind::Call, "backend.call", &raw.call),
        ];
        let mut targets: Vec<(HookKind, Target)> = Vec::new();
        for (ask, key, url) in urls.into_iter().filter(|(.., url)| !url.is_empty()) {
            targets.push((ask, self.require_ok(key, url.parse())?));
        }
        self.request_timeout("backend.timeout", raw.timeout.0)?;
        let fits = targets.is_empty() || raw.timeout.0 < handshake_timeout;
        self.require(fits, "backend.timeout", "must be shorter than limits.handshake_timeout")?;
        let mut headers: Vec<HeaderName> = Vec::new();
        for (index, name) in raw.headers.iter().enumerate() {
            headers.push(self.require_ok(&format!("backend.headers[{index}]"), name.parse())?);
        }
        for (index, name) in raw.cookies.iter().enumerate() {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"=;,\"".contains(&byte));
            self.require(is_name, &format!("backend.cookies[{index}]"), "is not the name of a cookie")?;
        }
        for (key, limit) in [
            ("backend.max_in_flight", raw.max_in_flight),
            ("backend.max_in_flight_per_session", raw.max_in_flight_per_session),
        ] {
            self.require(limit > 0, key, "must be at least 1")?;
        }
        let secret = match raw.secret.expose_secret() {
            "" => None,
            secret => Some(self.require_ok("backend.secret", secret.parse())?),
        };
        let ca = (!raw.ca.as_os_str().is_empty()).then_some(&*raw.ca);
        let has_tls = targets.iter().any(|(_, target)| target.is_tls());
        let trust = self.require_ok(CA, Trust::load(has_tls, CA, ca))?;
        Ok((!targets.is_empty()).then_some(BackendSettings {
            targets,
            headers,
            cookies: raw.cookies.clone(),
            trust,
            secret,
            timeout: raw.timeout.0,
            max_in_flight: raw.max_in_flight,
            max_in_flight_per_session: raw.max_in_flight_per_session,
        }))
    }
}
