//! The deadlines of a session. Five deadlines share two fields: of the deadlines that share a field, at most
//! one is armed at a time, depending on the phase and the ping. The lifetime is derived from the time the
//! session was opened.

use crate::Timestamp;
use crate::session::Deadline;

/// The armed deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines {
    /// Ping while no ping is in progress; Pong while one is outstanding. While the kernel is being probed,
    /// this holds the time at which Pong was due.
    pub(super) heartbeat: Option<Timestamp>,
    /// [`Deadline::PollHold`] while attached, [`Deadline::PollGap`] between polls, otherwise
    /// [`Deadline::Reconnect`].
    pub(super) client: Option<Timestamp>,
    pub(super) idle: Option<Timestamp>,
    pub(super) token: Option<Timestamp>,
}

impl Deadlines {
    pub(super) fn arm(&mut self, deadline: Deadline, at: Timestamp) {
        *self.field(deadline) = Some(at);
    }

    /// Disarms a deadline that may be armed in the current state. Other deadlines that share its field are
    /// disarmed, too.
    pub(super) fn disarm(&mut self, deadline: Deadline) {
        *self.field(deadline) = None;
    }

    pub(super) fn disarm_all(&mut self) {
        *self = Self::default();
    }

    /// Disarms the deadlines that end with the connection, except for Token.
    pub(super) fn disarm_connection_deadlines(&mut self) {
        (self.heartbeat, self.client) = (None, None);
    }

    fn field(&mut self, deadline: Deadline) -> &mut Option<Timestamp> {
        match deadline {
            Deadline::Ping | Deadline::Pong => &mut self.heartbeat,
            Deadline::PollHold | Deadline::PollGap | Deadline::Reconnect => &mut self.client,
            Deadline::Idle => &mut self.idle,
            Deadline::Token => &mut self.token,
            Deadline::Lifetime => unreachable!("the lifetime is derived from the opening time"),
        }
    }
}
