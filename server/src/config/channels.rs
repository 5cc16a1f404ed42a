//! `[channel]`, and `[[namespace]]`: what holds for channels whose names begin alike. What one does not say is as for all others.

use serde::Deserialize;

use super::raw::Checks;
use super::units::{Size, SpanOrOff, unless_zero};
use super::{ChannelConfig, ChannelRules, ConfigError, EngineConfig, LogLimits, Namespace};
use crate::channel::ChannelName;

/// A channel is looked for in all of them.
const MOST_NAMESPACES: usize = 64;

const LONGEST_NAME: usize = 4096;

#[derive(Deserialize)]
pub(super) struct RawChannel {
    pub(super) history_messages: usize,
    history_bytes: Size,
    history_age: SpanOrOff,
    history_total_bytes: Size,
    name_bytes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNamespace {
    prefix: String,
    history_messages: Option<usize>,
    history_bytes: Option<Size>,
    history_age: Option<SpanOrOff>,
    publish: Option<bool>,
    presence: Option<bool>,
    at_ms: Option<bool>,
    join_leave: Option<bool>,
}

/// The key of a namespace.
pub(super) fn key_of(index: usize, field: &str) -> String {
    format!("namespace[{index}].{field}")
}

impl RawChannel {
    pub(super) fn resolve(&self, namespaces: &[RawNamespace]) -> ChannelConfig {
        let log = LogLimits {
            messages: unless_zero(self.history_messages),
            bytes: unless_zero(self.history_bytes.0),
            age: self.history_age.0,
            total_bytes: unless_zero(self.history_total_bytes.0),
        };
        let namespaces = namespaces.iter().map(|namespace| namespace.resolve(&log)).collect();
        ChannelConfig { log, namespaces, name_bytes: self.name_bytes }
    }
}

impl RawNamespace {
    fn resolve(&self, default: &LogLimits) -> Namespace {
        let log = LogLimits {
            messages: self.history_messages.map_or(default.messages, unless_zero),
            bytes: self.history_bytes.map_or(default.bytes, |bytes| unless_zero(bytes.0)),
            age: self.history_age.map_or(default.age, |age| age.0),
            total_bytes: default.total_bytes,
        };
        let all = ChannelRules::of(log);
        let rules = ChannelRules {
            publish: self.publish.unwrap_or(all.publish),
            presence: self.presence.unwrap_or(all.presence),
            at_ms: self.at_ms.unwrap_or(all.at_ms),
            join_leave: self.join_leave.unwrap_or(all.join_leave),
            ..all
        };
        Namespace { prefix: self.prefix.clone(), rules }
    }
}

impl Checks<'_> {
    pub(super) fn channel(&self, channel: &RawChannel, max_message: usize) -> Result<(), ConfigError> {
        let bytes = unless_zero(channel.history_bytes.0);
        let fits = bytes >= max_message;
        self.require(fits, "channel.history_bytes", "must not be less than limits.max_message")?;
        let fits = unless_zero(channel.history_total_bytes.0) >= bytes;
        let message = "must not be less than channel.history_bytes";
        self.require(fits, "channel.history_total_bytes", message)?;
        let fits = (1..=LONGEST_NAME).contains(&channel.name_bytes);
        self.require(fits, "channel.name_bytes", format!("must be from 1 to {LONGEST_NAME}"))
    }

    pub(super) fn namespaces(
        &self,
        raw: &[RawNamespace],
        channel: &RawChannel,
        max_message: usize,
        engine: &EngineConfig,
    ) -> Result<(), ConfigError> {
        let few = raw.len() <= MOST_NAMESPACES;
        self.require(few, "namespace", format!("there may be at most {MOST_NAMESPACES}"))?;
        for (index, namespace) in raw.iter().enumerate() {
            let RawNamespace { prefix, history_messages, history_bytes, .. } = namespace;
            let key = |field: &str| key_of(index, field);
            self.require(
                !prefix.is_empty(),
                &key("prefix"),
                "must not be empty: [channel] is for all others",
            )?;
            let fits = prefix.len() <= channel.name_bytes;
            self.require(fits, &key("prefix"), "must not be longer than a name (channel.name_bytes)")?;
            self.sound(&key("prefix"), ChannelName::new_or_dots(prefix, channel.name_bytes))?;
            let is_new = raw.iter().take(index).all(|other| other.prefix != *prefix);
            self.require(is_new, &key("prefix"), format!("{prefix:?} is the `prefix` of another namespace"))?;
            if let Some(Size(bytes)) = history_bytes {
                let bytes = unless_zero(*bytes);
                let message = "must not be less than limits.max_message";
                self.require(bytes >= max_message, &key("history_bytes"), message)?;
                let message = "must not be more than channel.history_total_bytes";
                self.require(
                    bytes <= unless_zero(channel.history_total_bytes.0),
                    &key("history_bytes"),
                    message,
                )?;
            }
            let is_bounded = matches!(engine, EngineConfig::Memory) || *history_messages != Some(0);
            let message = "0, no limit, does not go with engine.kind = \"redis\"";
            self.require(is_bounded, &key("history_messages"), message)?;
        }
        Ok(())
    }
}
