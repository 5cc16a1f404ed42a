//! Names of keys and feeds in Redis.

/// Number of hash tags over which channels are spread; a cluster keeps all keys with the same tag on one
/// node. It must never change, and must be the same on all servers.
const PARTITIONS: u64 = 128;

/// Prefixes of the names of keys and feeds.
#[derive(Clone, Debug)]
pub(super) struct RedisKeys {
    prefix: Box<str>,
    /// Prefix of feeds. It contains the database number, because pub/sub is shared by all databases.
    feeds: Box<str>,
}

/// Names that belong to one channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChannelKeys {
    /// Hash with the epoch and the newest offset.
    pub(super) meta: String,
    /// Stream with the messages.
    pub(super) log: String,
    /// Pub/sub channel to which new messages are published.
    pub(super) feed: String,
}

/// Names of the keys that shared sessions have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionKeys {
    /// Prefix of a set for each server: its sessions. With the empty name: the sessions without an owner.
    pub(super) of: String,
    /// Stream of the ended sessions.
    pub(super) ended: String,
    /// Sorted set of the servers, with the expiry of each lease.
    pub(super) leases: String,
    /// Sorted set of the servers, with the time at which each got its lease.
    pub(super) since: String,
}

impl RedisKeys {
    pub(super) fn new(prefix: &str, database: i64) -> Self {
        let feeds = if database == 0 { prefix.into() } else { format!("{prefix}{database}:").into() };
        Self { prefix: prefix.into(), feeds }
    }

    /// Names for a channel. The part in braces is the hash tag.
    pub(super) fn for_channel(&self, channel: &str) -> ChannelKeys {
        let Self { prefix, feeds } = self;
        let partition = partition(channel);
        ChannelKeys {
            meta: format!("{prefix}{{{partition}}}m:{channel}"),
            log: format!("{prefix}{{{partition}}}l:{channel}"),
            feed: format!("{feeds}{{{partition}}}c:{channel}"),
        }
    }

    /// Hash with the known publish ids of a channel.
    pub(super) fn publish_ids(&self, channel: &str) -> String {
        format!("{}{{{}}}k:{channel}", self.prefix, partition(channel))
    }

    /// Channel to which a feed belongs.
    pub(super) fn channel_of<'a>(&self, feed: &'a str) -> Option<&'a str> {
        let (_, channel) = feed.strip_prefix(&*self.feeds)?.split_once("}c:")?;
        Some(channel)
    }

    /// Glob for the feeds of all channels that a pattern matches. It may match more, since both wildcards
    /// also match slashes in Redis. Different patterns have different globs.
    pub(super) fn glob(&self, pattern: &str) -> String {
        let before = pattern.trim_end_matches('*');
        let wildcard = &pattern[before.len()..];
        format!("{}{{*}}c:{}{wildcard}", escaped(&self.feeds), escaped(before))
    }

    /// Glob that covers all patterns.
    pub(super) fn widest_glob(&self) -> String {
        self.glob("/**")
    }

    /// Key of the generation.
    pub(super) fn generation(&self) -> String {
        format!("{}life", self.prefix)
    }

    /// Sorted set of the servers that share the channels.
    pub(super) fn servers(&self) -> String {
        format!("{}servers", self.prefix)
    }

    /// Keys of the online users: see `scripts/users.lua`.
    pub(super) fn users(&self) -> [String; 5] {
        ["names", "given-up", "online", "of:", "events:"].map(|key| format!("{}{{users}}{key}", self.prefix))
    }

    /// Hash with the record of the session with this id in hexadecimal: see `scripts/session.lua`.
    pub(super) fn session_record(&self, id: &str) -> String {
        format!("{}{{sessions}}s:{id}", self.prefix)
    }

    /// Other keys of shared sessions.
    pub(super) fn sessions(&self) -> SessionKeys {
        let [of, ended, leases, since] =
            ["of:", "ended", "leases", "since"].map(|key| format!("{}{{sessions}}{key}", self.prefix));
        SessionKeys { of, ended, leases, since }
    }

    /// Feed for messages of other servers to one server.
    pub(super) fn server_messages(&self, server: &str) -> String {
        format!("{}nodes:{server}", self.feeds)
    }

    /// Feed for presence queries to all servers.
    pub(super) fn presence_queries(&self) -> String {
        format!("{}questions", self.feeds)
    }

    /// Feed for presence replies to one server.
    pub(super) fn presence_replies(&self, server: &str) -> String {
        format!("{}answers:{server}", self.feeds)
    }

    /// Feed for a server's probes.
    pub(super) fn probe(&self, node: &str) -> String {
        format!("{}probe:{node}", self.feeds)
    }
}

/// Escapes the special characters of Redis globs.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '^' | '\\') {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

fn partition(channel: &str) -> u64 {
    fnv1a(channel.as_bytes()) % PARTITIONS
}

/// 64-bit FNV-1a, which is identical on all machines and in all versions.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable() {
        assert_eq!((fnv1a(b""), fnv1a(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        let keys = RedisKeys::new("encke:", 0);
        let expected = ChannelKeys {
            meta: "encke:{12}m:a".into(),
            log: "encke:{12}l:a".into(),
            feed: "encke:{12}c:a".into(),
        };
        assert_eq!(keys.for_channel("a"), expected);
        assert_eq!(keys.publish_ids("a"), "encke:{12}k:a");
        assert_eq!((keys.generation(), keys.probe("n")), ("encke:life".into(), "encke:probe:n".into()));
        assert_eq!(
            (keys.servers(), keys.presence_queries()),
            ("encke:servers".into(), "encke:questions".into())
        );
        assert_eq!(keys.presence_replies("n"), "encke:answers:n");
    }

    /// All keys have the same hash tag, because one script uses several of them.
    #[test]
    fn session_names_are_stable() {
        for (database, feed) in [(0, "encke:nodes:n"), (3, "encke:3:nodes:n")] {
            let keys = RedisKeys::new("encke:", database);
            assert_eq!(keys.session_record("0f"), "encke:{sessions}s:0f");
            let expected = SessionKeys {
                of: "encke:{sessions}of:".into(),
                ended: "encke:{sessions}ended".into(),
                leases: "encke:{sessions}leases".into(),
                since: "encke:{sessions}since".into(),
            };
            assert_eq!(keys.sessions(), expected);
            assert_eq!(keys.server_messages("n"), feed);
        }
    }

    #[test]
    fn feeds_depend_on_the_database() {
        let keys = RedisKeys::new("encke:", 3);
        let ChannelKeys { meta, log, feed } = keys.for_channel("a");
        assert_eq!((&*meta, &*log, &*feed), ("encke:{12}m:a", "encke:{12}l:a", "encke:3:{12}c:a"));
        assert_eq!(keys.channel_of(&feed), Some("a"));
        assert_eq!(keys.widest_glob(), "encke:3:{*}c:/**");
        let feeds = [keys.probe("n"), keys.presence_replies("n"), keys.presence_queries()];
        assert!(feeds.iter().all(|feed| feed.starts_with("encke:3:")), "{feeds:?}");
        assert_eq!((keys.generation(), keys.servers()), ("encke:life".into(), "encke:servers".into()));
    }

    #[test]
    fn globs() {
        let keys = RedisKeys::new("p*:", 0);
        for (pattern, expected) in [
            ("/*", r"p\*:{*}c:/*"),
            ("/a/**", r"p\*:{*}c:/a/**"),
            ("/a*/*", r"p\*:{*}c:/a\*/*"),
            (r"/[a-b]?\^/**", r"p\*:{*}c:/\[a-b\]\?\\\^/**"),
        ] {
            assert_eq!(keys.glob(pattern), expected);
        }
        assert_eq!(keys.widest_glob(), r"p\*:{*}c:/**");
    }

    #[test]
    fn the_channel_of_a_feed() {
        let keys = RedisKeys::new("p:", 0);
        for channel in ["a", "/a/b", "x}c:y", "{", "c:"] {
            assert_eq!(keys.channel_of(&keys.for_channel(channel).feed), Some(channel));
        }
        for stranger in ["", "p:", "p:{1}m:a", "q:{1}c:a"] {
            assert_eq!(keys.channel_of(stranger), None, "{stranger}");
        }
    }
}
