//! Connect at a rate, answer pings, stay.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answering::Answering;
use super::connects::Connects;
use super::{Pace, Run, Scenario, Setup, open_all};
use crate::client::{Connection, Event};
use crate::counts::Counter;
use crate::histogram::Times;
use crate::progress::Bar;
use crate::report::Group;

#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// How often to ping, if at all.
    ping_every: Option<Duration>,
    pong: Times,
    connected: Counter,
    connects: Connects,
    answering: Answering,
}

impl Scenario for Hold {
    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.hold(setup).await })
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() }]
    }

    fn outcome(&self, setup: &Setup) -> Group {
        Group::default()
            .with("connected", self.connected.get())
            .with("errors", setup.failures.total())
            .with("unexpected_closes", self.answering.unexpected_closes.get())
            .with("pings", self.answering.pings.get())
            .and(
                self.ping_every
                    .map_or_else(Group::default, |_| Group::default().with("pong_ms", self.pong.summary())),
            )
            .and(self.connects.outcome())
            .and(self.answering.ends.outcome())
    }
}

impl Hold {
    pub(crate) fn new(ping_every: Option<Duration>) -> Self {
        Self { ping_every, ..Self::default() }
    }

    /// A ping is sent when it is due, and its pong counts from then. Pings that were not answered before the next one are not
    /// told apart, for there should be none.
    async fn stay_and_ping(self: Rc<Self>, mut connection: Connection, every: Duration) {
        let mut due = Instant::now() + every;
        let mut asked_at = None;
        loop {
            let listened = self.answering.listen(&mut connection, |event| {
                if event == Event::Pong
                    && let Some(at) = asked_at.take()
                {
                    self.pong.record(Instant::now().saturating_duration_since(at));
                }
            });
            tokio::select! {
                Err(end) = listened => return self.answering.record_close(end),
                () = sleep_until(due) => {}
            }
            asked_at.get_or_insert(due);
            connection.ping().await;
            due += every;
        }
    }

    async fn hold(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            match self.ping_every {
                None => held.spawn_local(self.clone().stay(opened.connection)),
                Some(every) => held.spawn_local(self.clone().stay_and_ping(opened.connection, every)),
            };
        })
        .await;
        // Over when the time is, or when nothing is left to hold.
        let _ = timeout_at(pace.end(&setup.load), held.join_all()).await;
    }

    /// A block, for it uses the connection where it was captured. An async fn would have room for it twice.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    fn stay(self: Rc<Self>, mut connection: Connection) -> impl Future<Output = ()> {
        async move { self.answering.answer(&mut connection, |_| {}).await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// With 100 bytes of tokio's it must fit into 256.
    #[test]
    fn an_idle_connection_is_small() {
        let task = size_of_future(Hold::stay);
        assert!(task <= 144, "{task}");
    }
}
