//! `[[webhook]]`.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::ConfigError;
use super::raw::Validator;
use super::units::DurationSetting;
use crate::events::{EventName, WebhookSettings};
use crate::outbound::{Target, Trust};

const CA: &str = "webhook.ca";

const TIMEOUT: DurationSetting = DurationSetting(Duration::from_secs(10));
const RETRY_FOR: DurationSetting = DurationSetting(Duration::from_mins(10));
const MAX_QUEUED: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWebhook {
    name: Option<String>,
    url: String,
    events: Vec<EventName>,
    secret: SecretString,
    ca: Option<PathBuf>,
    #[serde(default = "timeout")]
    timeout: DurationSetting,
    #[serde(default = "retry_for")]
    retry_for: DurationSetting,
    #[serde(default = "max_queued")]
    max_queued: usize,
}

impl Validator<'_> {
    pub(super) fn webhooks(&self, raw: &[RawWebhook]) -> Result<Vec<WebhookSettings>, ConfigError> {
        let mut webhooks: Vec<WebhookSettings> = Vec::new();
        for (index, webhook) in raw.iter().enumerate() {
            let key = |field: &str| format!("webhook[{index}].{field}");
            let webhook = self.webhook(webhook, index, key)?;
            let is_new = webhooks.iter().all(|other| other.name != webhook.name);
            self.require(is_new, &key("name"), "is the name of another webhook")?;
            webhooks.push(webhook);
        }
        Ok(webhooks)
    }

    fn webhook(
        &self,
        raw: &RawWebhook,
        index: usize,
        key: impl Fn(&str) -> String,
    ) -> Result<WebhookSettings, ConfigError> {
        self.require(raw.name.as_deref() != Some(""), &key("name"), "must not be empty")?;
        self.require(!raw.events.is_empty(), &key("events"), "must not be empty")?;
        self.request_timeout(&key("timeout"), raw.timeout.0)?;
        self.require(raw.max_queued > 0, &key("max_queued"), "must be at least 1")?;
        let target: Target = self.require_ok(&key("url"), raw.url.parse())?;
        let trust = self.require_ok(&key("ca"), Trust::load(target.is_tls(), CA, raw.ca.as_deref()))?;
        Ok(WebhookSettings {
            name: raw.name.clone().unwrap_or_else(|| index.to_string()).into(),
            target,
            trust,
            events: raw.events.clone(),
            secret: self.require_ok(&key("secret"), raw.secret.expose_secret().parse())?,
            timeout: raw.timeout.0,
            retry_for: raw.retry_for.0,
            max_queued: raw.max_queued,
        })
    }
}

fn timeout() -> DurationSetting {
    TIMEOUT
}

fn retry_for() -> DurationSetting {
    RETRY_FOR
}

fn max_queued() -> usize {
    MAX_QUEUED
}
