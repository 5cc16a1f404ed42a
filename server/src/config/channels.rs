//! `[channel]` and `[[namespace]]`. A setting that a namespace leaves out is taken from `[channel]`.

use encke_broker::channel::{ChannelName, ChannelRules, LogLimits, Namespace};
use serde::Deserialize;

use super::engine::RawEngineKind;
use super::types::ChannelConfig;
use super::units::{DurationOrOff, SizeSetting, unless_zero};
use super::validator::Validator;

/// Maximum number of namespaces. Bounded because a channel's namespace is found by linear search.
const MAX_NAMESPACES: usize = 64;

const MAX_NAME_BYTES: usize = 4096;

#[derive(Deserialize)]
pub(super) struct RawChannel {
    pub(super) history_messages: usize,
    history_bytes: SizeSetting,
    history_age: DurationOrOff,
    history_total_bytes: SizeSetting,
    kept_positions: usize,
    name_bytes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNamespace {
    prefix: String,
    history_messages: Option<usize>,
    history_bytes: Option<SizeSetting>,
    history_age: Option<DurationOrOff>,
    publish: Option<bool>,
    presence: Option<bool>,
    at_ms: Option<bool>,
    join_leave: Option<bool>,
}

impl RawChannel {
    pub(super) fn resolve(&self, namespaces: &[RawNamespace]) -> ChannelConfig {
        let log = LogLimits {
            messages: unless_zero(self.history_messages),
            bytes: unless_zero(self.history_bytes.0),
            age: self.history_age.0,
            total_bytes: unless_zero(self.history_total_bytes.0),
            kept_positions: self.kept_positions,
        };
        let namespaces = namespaces.iter().map(|namespace| namespace.resolve(&log)).collect();
        ChannelConfig { log, namespaces, name_bytes: self.name_bytes }
    }

    /// Returns the maximum number of messages in the history of any channel.
    pub(super) fn longest_history(&self, namespaces: &[RawNamespace]) -> usize {
        let of_namespaces = namespaces.iter().filter_map(|namespace| namespace.history_messages);
        of_namespaces.fold(self.history_messages, usize::max)
    }
}

impl RawNamespace {
    fn resolve(&self, default: &LogLimits) -> Namespace {
        let log = LogLimits {
            messages: self.history_messages.map_or(default.messages, unless_zero),
            bytes: self.history_bytes.map_or(default.bytes, |bytes| unless_zero(bytes.0)),
            age: self.history_age.map_or(default.age, |age| age.0),
            total_bytes: default.total_bytes,
            kept_positions: default.kept_positions,
        };
        let all = ChannelRules::with_limits(log);
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

impl Validator<'_> {
    pub(super) fn channel(&self, channel: &RawChannel, max_message: usize) {
        let bytes = unless_zero(channel.history_bytes.0);
        let fits = bytes >= max_message;
        self.require(fits, "channel.history_bytes", "must not be less than limits.max_message");
        let fits = unless_zero(channel.history_total_bytes.0) >= bytes;
        let message = "must not be less than channel.history_bytes";
        self.require(fits, "channel.history_total_bytes", message);
        let fits = (1..=MAX_NAME_BYTES).contains(&channel.name_bytes);
        self.require(fits, "channel.name_bytes", format!("must be from 1 to {MAX_NAME_BYTES}"));
    }

    pub(super) fn namespaces(
        &self,
        raw: &[RawNamespace],
        channel: &RawChannel,
        max_message: usize,
        engine: RawEngineKind,
    ) {
        let few = raw.len() <= MAX_NAMESPACES;
        self.require(few, "namespace", format!("there may be at most {MAX_NAMESPACES}"));
        for (index, namespace) in raw.iter().enumerate() {
            let RawNamespace { prefix, history_messages, history_bytes, .. } = namespace;
            let key = |field: &str| format!("namespace[{index}].{field}");
            self.require(
                !prefix.is_empty(),
                &key("prefix"),
                "must not be empty: settings for all other channels belong in [channel]",
            );
            self.require(
                !prefix.contains('*'),
                &key("prefix"),
                "must not contain `*`: it is the beginning of the names, such as \"desk-\"",
            );
            let fits = prefix.len() <= channel.name_bytes;
            self.require(fits, &key("prefix"), "must not be longer than a name (channel.name_bytes)");
            let name = ChannelName::new_allowing_dots(prefix, channel.name_bytes);
            let _ = self.require_ok(&key("prefix"), name);
            let is_new = raw.iter().take(index).all(|other| other.prefix != *prefix);
            self.require(is_new, &key("prefix"), format!("{prefix:?} is the `prefix` of another namespace"));
            if let Some(SizeSetting(bytes)) = history_bytes {
                let bytes = unless_zero(*bytes);
                let message = "must not be less than limits.max_message";
                self.require(bytes >= max_message, &key("history_bytes"), message);
                let message = "must not be more than channel.history_total_bytes";
                self.require(
                    bytes <= unless_zero(channel.history_total_bytes.0),
                    &key("history_bytes"),
                    message,
                );
            }
            let is_bounded = engine == RawEngineKind::Memory || *history_messages != Some(0);
            let message = "must not be 0 (no limit) with engine.kind = \"redis\"";
            self.require(is_bounded, &key("history_messages"), message);
        }
    }
}
