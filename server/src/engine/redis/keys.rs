//! The names of what is in Redis.

/// Channels are spread over so many parts, each of which a cluster keeps in one place. All servers must agree on the number, for ever.
const PARTITIONS: u64 = 128;

/// What all names begin with.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: Box<str>,
    /// What the names of feeds begin with: Redis tells all its databases what is published in one.
    feeds: Box<str>,
}

/// Of one channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChannelKeys {
    /// A hash: its epoch, its newest message.
    pub(super) meta: String,
    /// A stream: its messages.
    pub(super) log: String,
    /// Where servers listen.
    pub(super) feed: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, database: i64) -> Self {
        let feeds = if database == 0 { prefix.into() } else { format!("{prefix}{database}:").into() };
        Self { prefix: prefix.into(), feeds }
    }

    /// What a channel's keys are. The part in braces is what a cluster goes by.
    pub(super) fn of(&self, channel: &str) -> ChannelKeys {
        let Self { prefix, feeds } = self;
        let partition = partition(channel);
        ChannelKeys {
            meta: format!("{prefix}{{{partition}}}m:{channel}"),
            log: format!("{prefix}{{{partition}}}l:{channel}"),
            feed: format!("{feeds}{{{partition}}}c:{channel}"),
        }
    }

    /// Where publishes of a channel that had keys are known: a hash.
    pub(super) fn publishes(&self, channel: &str) -> String {
        format!("{}{{{}}}k:{channel}", self.prefix, partition(channel))
    }

    /// The channel of which servers hear here.
    pub(super) fn channel_of<'a>(&self, feed: &'a str) -> Option<&'a str> {
        let (_, channel) = feed.strip_prefix(&*self.feeds)?.split_once("}c:")?;
        Some(channel)
    }

    /// What Redis is to compare with the names of feeds, for a pattern of channels: at least what that stands for. Both end with the same wildcard, which
    /// here stands for slashes, too: so patterns that differ have globs that differ.
    pub(super) fn glob(&self, pattern: &str) -> String {
        let before = pattern.trim_end_matches('*');
        let wildcard = &pattern[before.len()..];
        format!("{}{{*}}c:{}{wildcard}", escaped(&self.feeds), escaped(before))
    }

    /// The same for all that any pattern can stand for.
    pub(super) fn widest_glob(&self) -> String {
        self.glob("/**")
    }

    /// Which Redis it is.
    pub(super) fn life(&self) -> String {
        format!("{}life", self.prefix)
    }

    /// A sorted set: the servers that share channels.
    pub(super) fn servers(&self) -> String {
        format!("{}servers", self.prefix)
    }

    /// Where all of them listen.
    pub(super) fn questions(&self) -> String {
        format!("{}questions", self.feeds)
    }

    /// Where one of them listens for answers.
    pub(super) fn answers(&self, server: &str) -> String {
        format!("{}answers:{server}", self.feeds)
    }

    /// Where a server listens for itself.
    pub(super) fn probe(&self, node: &str) -> String {
        format!("{}probe:{node}", self.feeds)
    }
}

/// Text that stands for itself in a glob.
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

/// FNV-1a of 64 bits: the same everywhere, and in every version.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        assert_eq!((fnv1a(b""), fnv1a(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        let keys = Keys::new("encke:", 0);
        let expected = ChannelKeys {
            meta: "encke:{12}m:a".into(),
            log: "encke:{12}l:a".into(),
            feed: "encke:{12}c:a".into(),
        };
        assert_eq!(keys.of("a"), expected);
        assert_eq!(keys.publishes("a"), "encke:{12}k:a");
        assert_eq!((keys.life(), keys.probe("n")), ("encke:life".into(), "encke:probe:n".into()));
        assert_eq!((keys.servers(), keys.questions()), ("encke:servers".into(), "encke:questions".into()));
        assert_eq!(keys.answers("n"), "encke:answers:n");
    }

    #[test]
    fn feeds_of_another_database_have_other_names() {
        let keys = Keys::new("encke:", 3);
        let ChannelKeys { meta, log, feed } = keys.of("a");
        assert_eq!((&*meta, &*log, &*feed), ("encke:{12}m:a", "encke:{12}l:a", "encke:3:{12}c:a"));
        assert_eq!(keys.channel_of(&feed), Some("a"));
        assert_eq!(keys.widest_glob(), "encke:3:{*}c:/**");
        let feeds = [keys.probe("n"), keys.answers("n"), keys.questions()];
        assert!(feeds.iter().all(|feed| feed.starts_with("encke:3:")), "{feeds:?}");
        assert_eq!((keys.life(), keys.servers()), ("encke:life".into(), "encke:servers".into()));
    }

    #[test]
    fn globs() {
        let keys = Keys::new("p*:", 0);
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
        let keys = Keys::new("p:", 0);
        for channel in ["a", "/a/b", "x}c:y", "{", "c:"] {
            assert_eq!(keys.channel_of(&keys.of(channel).feed), Some(channel));
        }
        for stranger in ["", "p:", "p:{1}m:a", "q:{1}c:a"] {
            assert_eq!(keys.channel_of(stranger), None, "{stranger}");
        }
    }
}
