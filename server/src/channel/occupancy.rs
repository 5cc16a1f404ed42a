use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::name::ChannelName;

/// Is told when the first follows a channel, and when the last has left it, in that order. A log's lock is held.
pub(crate) trait OccupancySink: Send + Sync + 'static {
    fn occupied(&self, channel: &ChannelName);
    fn vacated(&self, channel: &ChannelName);
}

/// How many follow each channel. It counts by names: where a log goes on in another life, those who follow are in one before they leave the other,
/// and nothing is told.
pub(crate) struct Occupancy {
    followers: Mutex<HashMap<ChannelName, usize>>,
    sink: Arc<dyn OccupancySink>,
}

impl Occupancy {
    /// Nobody follows anything yet.
    pub(crate) fn new(sink: Arc<dyn OccupancySink>) -> Self {
        Self { followers: Mutex::default(), sink }
    }

    /// One more follows.
    pub(super) fn joined(&self, channel: &ChannelName) {
        let mut followers = self.followers.lock();
        let count = followers.entry(channel.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.sink.occupied(channel);
        }
    }

    /// One more follows, which did so in the process before: whoever listens was told then.
    pub(super) fn stayed(&self, channel: &ChannelName) {
        *self.followers.lock().entry(channel.clone()).or_default() += 1;
    }

    /// One follows no longer.
    pub(super) fn left(&self, channel: &ChannelName) {
        let mut followers = self.followers.lock();
        let Some(count) = followers.get_mut(channel) else { return };
        *count -= 1;
        if *count == 0 {
            followers.remove(channel);
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
    struct Told(Mutex<Vec<String>>);

    impl OccupancySink for Told {
        fn occupied(&self, channel: &ChannelName) {
            self.0.lock().push(format!("+{}", channel.as_str()));
        }

        fn vacated(&self, channel: &ChannelName) {
            self.0.lock().push(format!("-{}", channel.as_str()));
        }
    }

    #[test]
    fn the_first_and_the_last_are_told() {
        let told = Arc::new(Told::default());
        let occupancy = Occupancy::new(Arc::clone(&told) as Arc<dyn OccupancySink>);
        let name = |text| ChannelName::new(text, 255).expect("a name");
        let (a, b, c) = (name("a"), name("b"), name("c"));
        occupancy.joined(&a);
        occupancy.joined(&a);
        occupancy.joined(&b);
        occupancy.left(&a);
        occupancy.left(&b);
        occupancy.left(&a);
        occupancy.joined(&a);
        occupancy.stayed(&c);
        occupancy.joined(&c);
        occupancy.left(&c);
        occupancy.left(&c);
        assert_eq!(told.0.lock().join(" "), "+a +b -b -a +a -c");
    }
}
