//! Opens connections at a given rate, answers pings, and holds them.

use std::rc::Rc;
use std::time::Duration;

use encke_client::{ClientConnection, ClientEvent};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answering::Answering;
use super::connects::Connects;
use super::pongs::{Pings, Pongs};
use super::punctuality::Punctuality;
use super::{ConnectSchedule, OpenedConnection, Setup, open_all};
use crate::args::HoldOptions;
use crate::record::Metrics;

#[derive(Debug)]
pub(crate) struct Hold {
    connects: Connects,
    answering: Rc<Answering>,
    heartbeat: Heartbeat,
}

/// Sign that a connection is alive.
#[derive(Debug)]
enum Heartbeat {
    /// The client's pings, at this interval. They postpone the server's, whose times are not checked.
    OfClient(Duration, Pongs),
    /// The server's pings, or polls that are answered without messages.
    OfServer(Punctuality),
}

impl Hold {
    pub(super) fn new(options: &HoldOptions, metrics: &Metrics) -> Self {
        Self {
            connects: Connects::new(metrics),
            answering: Answering::new(metrics),
            heartbeat: match options.ping_every {
                Some(every) => Heartbeat::OfClient(every, Pongs::new(metrics)),
                None => {
                    let action = if options.held.server.target.polls() { "hold" } else { "ping" };
                    Heartbeat::OfServer(Punctuality::new(action, metrics))
                }
            },
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.enter_phase("connect");
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connects.record(&opened);
            match &self.heartbeat {
                Heartbeat::OfClient(every, _) => {
                    return drop(held.spawn_local(self.clone().stay_and_ping(opened, *every)));
                }
                Heartbeat::OfServer(actions) if setup.load.server.target.polls() => {
                    actions.announce(opened.greeting.poll_hold);
                }
                Heartbeat::OfServer(actions) => actions.announce(opened.greeting.ping_interval),
            }
            held.spawn_local(self.clone().stay(opened.connection));
        })
        .await;
        setup.enter_phase("hold");
        // This ends when the time is up, or when no connection is left.
        let _ = timeout_at(pace.end(&setup.load), held.join_all()).await;
    }

    /// Holds a connection and answers pings. An async block keeps the captured connection in place; an async
    /// fn would reserve space for it twice.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    fn stay(self: Rc<Self>, mut connection: ClientConnection) -> impl Future<Output = ()> {
        async move {
            // When the last ping was answered. The first ping may arrive at any time, because servers spread
            // pings over time.
            let mut last = None;
            let listening = self.answering.answer(&mut connection, |event| match (event, &self.heartbeat) {
                (ClientEvent::Ping(_), Heartbeat::OfServer(pings)) => {
                    let now = Instant::now();
                    let before = last.replace(now);
                    before.iter().for_each(|before| pings.record(now.saturating_duration_since(*before)));
                }
                (ClientEvent::EmptyPoll(time), Heartbeat::OfServer(holds)) => holds.record(time),
                _ => {}
            });
            listening.await;
        }
    }

    /// Sends each ping when it is due, regardless of whether the previous ones have been answered.
    async fn stay_and_ping(self: Rc<Self>, opened: OpenedConnection, every: Duration) {
        let Heartbeat::OfClient(_, pongs) = &self.heartbeat else { return };
        let OpenedConnection { mut connection, at, .. } = opened;
        let (mut pings, mut due) = (Pings::default(), at + every);
        loop {
            let listened = connection.listen(|event| {
                if let ClientEvent::Pong(payload) = event {
                    pongs.record_pong(&mut pings, payload);
                }
            });
            tokio::select! {
                _ = listened => return self.answering.unexpected_closes.increment(),
                () = sleep_until(due) => {}
            }
            let payload = pongs.next_ping(&mut pings, due);
            connection.ping(&payload).await;
            due += every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// Checks the size of a task. With tokio's overhead of 100 bytes it must fit into 320 bytes, a size class of
    /// the allocator.
    #[test]
    fn an_idle_connection_is_small() {
        let task = size_of_future(Hold::stay);
        assert!(task + 100 <= 320, "{task}");
    }
}
