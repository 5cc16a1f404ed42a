//! `[backend]`.

use std::path::PathBuf;
use std::time::Duration;

use encke_base::outbound::{Secret, Target, Trust};
use hyper::header::HeaderName;
use serde::Deserialize;

use super::units::{DurationSetting, Parsed, optional};
use super::validator::{Refused, Validator};
use crate::backend::{BackendSettings, HookKind};

const CA: &str = "backend.ca";

#[derive(Deserialize)]
pub(super) struct RawBackend {
    #[serde(deserialize_with = "optional")]
    connect: Option<Target>,
    headers: Vec<Parsed<HeaderName>>,
    cookies: Vec<String>,
    #[serde(deserialize_with = "optional")]
    subscribe: Option<Target>,
    #[serde(deserialize_with = "optional")]
    publish: Option<Target>,
    #[serde(deserialize_with = "optional")]
    call: Option<Target>,
    #[serde(deserialize_with = "optional")]
    secret: Option<Secret>,
    #[serde(deserialize_with = "optional")]
    ca: Option<PathBuf>,
    timeout: DurationSetting,
    max_in_flight: usize,
    max_in_flight_per_session: usize,
}

impl Validator<'_> {
    /// Validates `[backend]`. Returns `None` if no hook is configured.
    pub(super) fn backend(
        &self,
        raw: RawBackend,
        handshake_timeout: Duration,
    ) -> Result<Option<BackendSettings>, Refused> {
        let targets = [
            (HookKind::Connect, raw.connect),
            (HookKind::Subscribe, raw.subscribe),
            (HookKind::Publish, raw.publish),
            (HookKind::Call, raw.call),
        ];
        let targets: Vec<_> =
            targets.into_iter().filter_map(|(hook, target)| Some((hook, target?))).collect();
        self.request_timeout("backend.timeout", raw.timeout.0);
        let fits = targets.is_empty() || raw.timeout.0 < handshake_timeout;
        self.require(fits, "backend.timeout", "must be shorter than limits.handshake_timeout");
        for (index, name) in raw.cookies.iter().enumerate() {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"=;,\"".contains(&byte));
            self.require(is_name, &format!("backend.cookies[{index}]"), "is not the name of a cookie");
        }
        let has_connect = targets.iter().any(|(hook, _)| *hook == HookKind::Connect);
        for (key, is_empty) in
            [("backend.headers", raw.headers.is_empty()), ("backend.cookies", raw.cookies.is_empty())]
        {
            self.require(
                has_connect || is_empty,
                key,
                "needs backend.connect, to which alone they are passed on",
            );
        }
        for (key, limit) in [
            ("backend.max_in_flight", raw.max_in_flight),
            ("backend.max_in_flight_per_session", raw.max_in_flight_per_session),
        ] {
            self.require(limit > 0, key, "must be at least 1");
        }
        let has_tls = targets.iter().any(|(_, target)| target.is_tls());
        let trust = self.require_ok(CA, Trust::load(has_tls, CA, raw.ca.as_deref()))?;
        Ok((!targets.is_empty()).then_some(BackendSettings {
            targets,
            headers: raw.headers.into_iter().map(|Parsed(name)| name).collect(),
            cookies: raw.cookies,
            trust,
            secret: raw.secret,
            timeout: raw.timeout.0,
            max_in_flight: raw.max_in_flight,
            max_in_flight_per_session: raw.max_in_flight_per_session,
        }))
    }
}
