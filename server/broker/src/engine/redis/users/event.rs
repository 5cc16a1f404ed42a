use std::fmt;
use std::time::Duration;

use encke_timeouts::clock::UnixTime;

/// Change of a user between online and offline, over all servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserEvent {
    /// Unique, and the same if the event is repeated because its server has died.
    pub id: Box<str>,
    /// Time of Redis.
    pub at: UnixTime,
    pub user: Box<str>,
    pub is_online: bool,
}

/// Receiver of the events that this server must report. Each event is passed to one server.
pub trait UserEventSink: fmt::Debug + Send + Sync + 'static {
    fn user_event(&self, event: UserEvent);
}

impl UserEvent {
    /// Parses an event: `<id> <milliseconds> <sign><user>`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(' ')?;
        let (at, change) = rest.split_once(' ')?;
        let (sign, user) = change.split_at_checked(1)?;
        let is_online = match sign {
            "+" => true,
            "-" => false,
            _ => return None,
        };
        let at = UnixTime::since_epoch(Duration::from_millis(at.parse().ok()?));
        Some(Self { id: id.into(), at, user: user.into(), is_online })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed() {
        let event = UserEvent::parse("n_a.1-7-1 1700000000123 -al ice");
        let expected = UserEvent {
            id: "n_a.1-7-1".into(),
            at: UnixTime::since_epoch(Duration::from_millis(1_700_000_000_123)),
            user: "al ice".into(),
            is_online: false,
        };
        assert_eq!(event, Some(expected));
        for bad in ["", "a", "a 1", "a 1 ", "a x +b", "a 1 b", "a 1 \u{e9}"] {
            assert_eq!(UserEvent::parse(bad), None, "{bad}");
        }
    }
}
