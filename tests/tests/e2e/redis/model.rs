//! Model of the channel scripts without Redis, slow but obviously correct. The simulator uses it in place of
//! Redis.

#![expect(dead_code, reason = "each of those that use it needs another part")]

use std::collections::BTreeMap;

/// Maximum number of past epochs remembered.
const MAX_PAST_EPOCHS: usize = 16;

/// Model of all channels.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    channels: BTreeMap<String, ChannelModel>,
}

#[derive(Clone, Debug, Default)]
struct ChannelModel {
    /// Known publishes with a key, oldest first: the key, and the epoch and offset from the reply.
    known: Vec<(String, (String, u64))>,
    /// Meta key; `None` if it does not exist.
    meta: Option<Meta>,
    /// Offsets and messages, oldest first.
    log: Vec<(u64, String)>,
}

#[derive(Clone, Debug)]
struct Meta {
    epoch: String,
    offset: u64,
    generation: u64,
    /// Past epochs with their cuts, newest first.
    past: Vec<(String, u64)>,
}

/// State that a server reads when it opens a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenedChannel {
    pub(super) epoch: String,
    pub(super) offset: u64,
    pub(super) past: Vec<(String, u64)>,
    /// Entries of the log. Redis may have trimmed the oldest ones.
    pub(super) log: Vec<(u64, String)>,
}

impl Model {
    /// Publishes with an idempotency key, of which the last `max` are known. Returns the epoch and the
    /// offset, and whether the publish was a repeat.
    pub(super) fn publish_once(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        generation: u64,
        (id, max): (&str, usize),
    ) -> (String, u64, bool) {
        let known = &mut self.channel(channel).known;
        if let Some((_, (epoch, offset))) = known.iter().find(|(known, _)| known == id) {
            return (epoch.clone(), *offset, true);
        }
        if known.len() == max {
            known.remove(0);
        }
        let published = self.publish(channel, data, new_epoch, generation);
        let known = &mut self.channel(channel).known;
        known.push((id.to_owned(), published.clone()));
        (published.0, published.1, false)
    }

    fn channel(&mut self, name: &str) -> &mut ChannelModel {
        self.channels.entry(name.to_owned()).or_default()
    }

    /// Lets all known publishes expire.
    pub(super) fn forget_publishes(&mut self, channel: &str) {
        self.channel(channel).known.clear();
    }

    /// Publishes a message and returns its epoch and offset.
    pub(super) fn publish(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        generation: u64,
    ) -> (String, u64) {
        let channel = self.channel(channel);
        let meta = channel.at_generation(new_epoch, generation);
        meta.offset += 1;
        let published = (meta.epoch.clone(), meta.offset);
        channel.log.push((published.1, data.to_owned()));
        published
    }

    pub(super) fn open(&mut self, channel: &str, new_epoch: &str, generation: u64) -> OpenedChannel {
        let channel = self.channel(channel);
        let Meta { epoch, offset, past, .. } = channel.at_generation(new_epoch, generation).clone();
        OpenedChannel { epoch, offset, past, log: channel.log.clone() }
    }

    /// Lets the log expire.
    pub(super) fn expire_log(&mut self, channel: &str) {
        self.channel(channel).log.clear();
    }

    /// Removes the meta key, as if it had expired or an operator had deleted it.
    pub(super) fn lose_meta(&mut self, channel: &str) {
        self.channel(channel).meta = None;
    }

    /// Trims the log to its newest `max` messages.
    pub(super) fn trim(&mut self, channel: &str, max: usize) {
        let log = &mut self.channel(channel).log;
        log.drain(..log.len().saturating_sub(max));
    }

    /// Simulates a failover to a Redis that lacks the newest messages. `lost` is called for each log and
    /// returns how many it lacks.
    pub(super) fn lose_tails(&mut self, mut lost: impl FnMut() -> u64) {
        for ChannelModel { meta, log, known } in self.channels.values_mut() {
            let Some(meta) = meta else { continue };
            meta.offset -= lost().min(meta.offset);
            // A replica that lacks messages from before the start of an epoch does not know that epoch
            // either.
            while meta.past.first().is_some_and(|(_, cut)| *cut > meta.offset) {
                let unheard = std::mem::replace(&mut meta.epoch, meta.past.remove(0).0);
                known.retain(|(_, (epoch, _))| *epoch != unheard);
            }
            log.retain(|(offset, _)| *offset <= meta.offset);
            known.retain(|(_, (epoch, offset))| *epoch != meta.epoch || *offset <= meta.offset);
        }
    }

    /// Returns the epoch, the newest offset and the generation, if the channel is known.
    pub(super) fn state(&self, channel: &str) -> Option<(String, u64, u64)> {
        let meta = self.channels.get(channel)?.meta.as_ref()?;
        Some((meta.epoch.clone(), meta.offset, meta.generation))
    }

    pub(super) fn log(&self, channel: &str) -> &[(u64, String)] {
        self.channels.get(channel).map_or(&[], |channel| &channel.log)
    }

    /// Empties Redis.
    pub(super) fn flush(&mut self) {
        self.channels.clear();
    }
}

impl ChannelModel {
    fn at_generation(&mut self, new_epoch: &str, generation: u64) -> &mut Meta {
        let fresh = match self.meta.take() {
            Some(meta) if meta.generation >= generation => meta,
            Some(mut meta) => {
                meta.past.insert(0, (std::mem::replace(&mut meta.epoch, new_epoch.to_owned()), meta.offset));
                meta.past.truncate(MAX_PAST_EPOCHS);
                Meta { generation, ..meta }
            }
            None => {
                self.log.clear();
                Meta { epoch: new_epoch.to_owned(), offset: 0, generation, past: Vec::new() }
            }
        };
        self.meta.insert(fresh)
    }
}
