use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use encke_base::locks::{Mutex, level};

use super::name::ChannelName;

/// Receiver of occupancy changes: the first subscription to a channel, and the end of the last one. Changes
/// are reported in order, with a log's lock held.
pub trait OccupancySink: Send + Sync + 'static {
    fn occupied(&self, channel: &ChannelName);
    fn vacated(&self, channel: &ChannelName);
}

/// Counts the subscribers of each channel, by name. When a log is replaced, subscribers join the new one
/// before they leave the old one, so no change is reported.
pub struct Occupancy {
    subscribers: Mutex<HashMap<ChannelName, usize>, level::Occupancy>,
    sink: Arc<dyn OccupancySink>,
}

impl Occupancy {
    pub fn new(sink: Arc<dyn OccupancySink>) -> Self {
        Self { subscribers: Mutex::default(), sink }
    }

    /// Counts a new subscription.
    pub(super) fn joined(&self, channel: &ChannelName) {
        let mut subscribers = self.subscribers.lock();
        let count = subscribers.entry(channel.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.sink.occupied(channel);
        }
    }

    /// Counts a subscription restored from the previous process, which has already reported it.
    pub(super) fn restored(&self, channel: &ChannelName) {
        *self.subscribers.lock().entry(channel.clone()).or_default() += 1;
    }

    /// Counts the end of a subscription.
    pub(super) fn left(&self, channel: &ChannelName) {
        let mut subscribers = self.subscribers.lock();
        let Some(count) = subscribers.get_mut(channel) else { return };
        *count -= 1;
        if *count == 0 {
            subscribers.remove(channel);
            self.sink.vacated(channel);
        }
    }
}

impl fmt::Debug for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occupancy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct RecordingSink(Mutex<Vec<String>>);

    impl OccupancySink for RecordingSink {
        fn occupied(&self, channel: &ChannelName) {
            self.0.lock().push(format!("+{}", channel.as_str()));
        }

        fn vacated(&self, channel: &ChannelName) {
            self.0.lock().push(format!("-{}", channel.as_str()));
        }
    }

    #[test]
    fn first_and_last_subscriptions_are_reported() {
        let sink = Arc::new(RecordingSink::default());
        let occupancy = Occupancy::new(Arc::clone(&sink) as Arc<dyn OccupancySink>);
        let name = |text| ChannelName::new(text, 255).expect("a name");
        let (a, b, c) = (name("a"), name("b"), name("c"));
        occupancy.joined(&a);
        occupancy.joined(&a);
        occupancy.joined(&b);
        occupancy.left(&a);
        occupancy.left(&b);
        occupancy.left(&a);
        occupancy.joined(&a);
        occupancy.restored(&c);
        occupancy.joined(&c);
        occupancy.left(&c);
        occupancy.left(&c);
        assert_eq!(sink.0.lock().join(" "), "+a +b -b -a +a -c");
    }
}
