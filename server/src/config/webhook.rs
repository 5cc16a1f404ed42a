//! `[[webhook]]`.

use std::path::PathBuf;
use std::time::Duration;

use encke_base::outbound::{Secret, Target, Trust};
use serde::Deserialize;

use super::units::{DurationSetting, parsed};
use super::validator::Validator;
use crate::events::{EventName, WebhookSettings};

const CA: &str = "webhook.ca";

const TIMEOUT: DurationSetting = DurationSetting(Duration::from_secs(10));
const RETRY_FOR: DurationSetting = DurationSetting(Duration::from_mins(10));
const MAX_QUEUED: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWebhook {
    name: Option<String>,
    #[serde(deserialize_with = "parsed")]
    url: Target,
    events: Vec<EventName>,
    #[serde(deserialize_with = "parsed")]
    secret: Secret,
    ca: Option<PathBuf>,
    timeout: Option<DurationSetting>,
    retry_for: Option<DurationSetting>,
    max_queued: Option<usize>,
}

impl Validator<'_> {
    pub(super) fn webhooks(&self, raw: Vec<RawWebhook>) -> Vec<WebhookSettings> {
        let mut webhooks: Vec<WebhookSettings> = Vec::new();
        for (index, raw) in raw.into_iter().enumerate() {
            let key = |field: &str| format!("webhook[{index}].{field}");
            self.require(raw.name.as_deref() != Some(""), &key("name"), "must not be empty");
            self.require(!raw.events.is_empty(), &key("events"), "must not be empty");
            let timeout = raw.timeout.unwrap_or(TIMEOUT).0;
            self.request_timeout(&key("timeout"), timeout);
            let max_queued = raw.max_queued.unwrap_or(MAX_QUEUED);
            self.require(max_queued > 0, &key("max_queued"), "must be at least 1");
            let name = raw.name.unwrap_or_else(|| index.to_string()).into();
            let is_new = webhooks.iter().all(|other| other.name != name);
            self.require(is_new, &key("name"), "is the name of another webhook");
            let trust = Trust::load(raw.url.is_tls(), CA, raw.ca.as_deref());
            let Ok(trust) = self.require_ok(&key("ca"), trust) else { continue };
            webhooks.push(WebhookSettings {
                name,
                trust,
                target: raw.url,
                events: raw.events,
                secret: raw.secret,
                timeout,
                retry_for: raw.retry_for.unwrap_or(RETRY_FOR).0,
                max_queued,
            });
        }
        webhooks
    }
}
