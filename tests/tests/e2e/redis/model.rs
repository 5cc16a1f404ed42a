//! What the scripts of channels do, without Redis: slow, and plain enough to be believed. The simulation has it for its Redis.

#![expect(dead_code, reason = "each of those that use it needs another part")]

use std::collections::BTreeMap;

/// Earlier epochs that are remembered.
const MOST_PAST_EPOCHS: usize = 4;

/// Channels, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    channels: BTreeMap<String, Channel>,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    /// What is known of publishes that had keys, oldest first, and what they were answered.
    known: Vec<(String, (String, u64))>,
    /// Nothing, if its meta key is gone.
    meta: Option<Meta>,
    /// Offsets and messages, oldest first.
    log: Vec<(u64, String)>,
}

#[derive(Clone, Debug)]
struct Meta {
    epoch: String,
    offset: u64,
    life: u64,
    /// Earlier epochs with their cuts, newest first.
    past: Vec<(String, u64)>,
}

/// What a server learns by opening a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) epoch: String,
    pub(super) offset: u64,
    pub(super) past: Vec<(String, u64)>,
    /// At least the newest of these are there.
    pub(super) log: Vec<(u64, String)>,
}

impl Model {
    /// A publish that has a key; so many of these are known. Returns also whether it was published before.
    pub(super) fn publish_once(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        life: u64,
        (id, most): (&str, usize),
    ) -> (String, u64, bool) {
        let known = &mut self.channels.entry(channel.to_owned()).or_default().known;
        if let Some((_, (epoch, offset))) = known.iter().find(|(known, _)| known == id) {
            return (epoch.clone(), *offset, true);
        }
        if known.len() == most {
            known.remove(0);
        }
        let published = self.publish(channel, data, new_epoch, life);
        let known = &mut self.channels.entry(channel.to_owned()).or_default().known;
        known.push((id.to_owned(), published.clone()));
        (published.0, published.1, false)
    }

    /// All publishes that had keys have become too old to be known.
    pub(super) fn forget_publishes(&mut self, channel: &str) {
        self.channels.entry(channel.to_owned()).or_default().known.clear();
    }

    /// Returns the epoch and the offset.
    pub(super) fn publish(&mut self, channel: &str, data: &str, new_epoch: &str, life: u64) -> (String, u64) {
        let channel = self.channels.entry(channel.to_owned()).or_default();
        let meta = channel.in_life(new_epoch, life);
        meta.offset += 1;
        let published = (meta.epoch.clone(), meta.offset);
        channel.log.push((published.1, data.to_owned()));
        published
    }

    pub(super) fn open(&mut self, channel: &str, new_epoch: &str, life: u64) -> Opened {
        let channel = self.channels.entry(channel.to_owned()).or_default();
        let Meta { epoch, offset, past, .. } = channel.in_life(new_epoch, life).clone();
        Opened { epoch, offset, past, log: channel.log.clone() }
    }

    /// The log has become too old.
    pub(super) fn expire_log(&mut self, channel: &str) {
        self.channels.entry(channel.to_owned()).or_default().log.clear();
    }

    /// Nobody has used the channel for long, or somebody has removed the key.
    pub(super) fn lose_meta(&mut self, channel: &str) {
        self.channels.entry(channel.to_owned()).or_default().meta = None;
    }

    /// The log keeps so many messages.
    pub(super) fn trim(&mut self, channel: &str, most: usize) {
        let log = &mut self.channels.entry(channel.to_owned()).or_default().log;
        log.drain(..log.len().saturating_sub(most));
    }

    /// Another Redis takes over, which lacks the newest messages, so many of each log.
    pub(super) fn lose_tails(&mut self, mut lost: impl FnMut() -> u64) {
        for Channel { meta, log, known } in self.channels.values_mut() {
            let Some(meta) = meta else { continue };
            meta.offset -= lost().min(meta.offset);
            // What has not even what was there when an epoch began has not heard of that epoch.
            while meta.past.first().is_some_and(|(_, cut)| *cut > meta.offset) {
                let unheard = std::mem::replace(&mut meta.epoch, meta.past.remove(0).0);
                known.retain(|(_, (epoch, _))| *epoch != unheard);
            }
            log.retain(|(offset, _)| *offset <= meta.offset);
            known.retain(|(_, (epoch, offset))| *epoch != meta.epoch || *offset <= meta.offset);
        }
    }

    /// The epoch, the newest message and the life, if the channel is known.
    pub(super) fn state(&self, channel: &str) -> Option<(String, u64, u64)> {
        let meta = self.channels.get(channel)?.meta.as_ref()?;
        Some((meta.epoch.clone(), meta.offset, meta.life))
    }

    pub(super) fn log(&self, channel: &str) -> &[(u64, String)] {
        self.channels.get(channel).map_or(&[], |channel| &channel.log)
    }

    /// Redis is empty.
    pub(super) fn flush(&mut self) {
        self.channels.clear();
    }
}

impl Channel {
    fn in_life(&mut self, new_epoch: &str, life: u64) -> &mut Meta {
        let fresh = match self.meta.take() {
            Some(meta) if meta.life >= life => meta,
            Some(mut meta) => {
                meta.past.insert(0, (std::mem::replace(&mut meta.epoch, new_epoch.to_owned()), meta.offset));
                meta.past.truncate(MOST_PAST_EPOCHS);
                Meta { life, ..meta }
            }
            None => {
                self.log.clear();
                Meta { epoch: new_epoch.to_owned(), offset: 0, life, past: Vec::new() }
            }
        };
        self.meta.insert(fresh)
    }
}
