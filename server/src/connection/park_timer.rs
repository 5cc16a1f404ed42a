use encke_base::parking::ParkBackoff;

use crate::client::Attachment;
use crate::session::Signals;

/// Decides when a connection has been silent for long enough to be parked.
///
/// The connection waits in a queue shared with all others, and a signal reports that its delay has elapsed.
/// With one timer per connection, timers would be most of the cost of parking.
#[derive(Debug, Default)]
pub(super) enum ParkTimer {
    #[default]
    Idle,
    Queued,
    /// The delay has elapsed.
    Elapsed,
}

impl ParkTimer {
    /// Handles the signals of a connection. Must be called with every set of signals taken.
    pub(super) fn note_signals(&mut self, signals: Signals) {
        if signals.contains(Signals::IDLE_ELAPSED) {
            *self = Self::Elapsed;
        }
    }

    /// Whether a delay without input from the client has elapsed. This is checked at the end of each delay, so
    /// the silence may have lasted longer. If not, the connection is queued for another delay, at whose end a
    /// signal wakes the task.
    ///
    /// `has_input` records whether the client has sent anything. Pongs do not count, nor does output, since
    /// both are handled while the connection is parked.
    pub(super) fn has_delay_elapsed(
        &mut self,
        attachment: &Attachment,
        backoff: &mut ParkBackoff,
        has_input: &mut bool,
    ) -> bool {
        let Attachment { mailbox, services, .. } = attachment;
        let Some(parking) = &services.parking else { return false };
        if matches!(self, Self::Elapsed) {
            *self = Self::Idle;
            if !*has_input {
                return true;
            }
            backoff.record_activity(parking.idle_time);
        }
        let delay = backoff.delay(parking.idle_time);
        if delay.is_zero() {
            return true;
        }
        if matches!(self, Self::Idle) {
            *has_input = false;
            parking.idle_queue.push(services.timeouts.clock().now(), delay, (mailbox.session(), mailbox.id));
            *self = Self::Queued;
        }
        false
    }
}
