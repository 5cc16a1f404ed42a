//! Connects all clients and subscribes them.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Subscribers;
use crate::client::Received;
use crate::client::{Connection, Event};
use crate::client::{Failure, kind_of_end};
use crate::scenario::channel::round::Round;
use crate::scenario::{Attempt, Opened, Pace, Setup, open_all};

/// How often to check whether all subscriptions were answered.
const LOOK: Duration = Duration::from_millis(10);

impl Subscribers {
    /// Connects all clients, and waits until the clients that `on_open` subscribes have done so.
    pub(crate) async fn connect_all(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<Round>,
        on_open: impl FnMut(Opened),
    ) {
        self.connect_all_with(setup, round, |attempt| attempt, on_open).await;
    }

    /// The same; `adapt` changes how single clients connect.
    pub(crate) async fn connect_all_with(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<Round>,
        adapt: impl Fn(Attempt) -> Attempt,
        mut on_open: impl FnMut(Opened),
    ) {
        self.begin(vec![Rc::clone(round)]);
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("subscribe");
        open_all(setup, pace.attempts(&setup.load).map(adapt), |opened| {
            self.connected.increment();
            round.connected.increment();
            self.connects.record(&opened);
            on_open(opened);
        })
        .await;
        while round.settled.get() < round.connected.get() {
            sleep(LOOK).await;
        }
    }

    /// Subscribes a connection that has just been opened. A failure is recorded.
    pub(crate) async fn join(
        &self,
        setup: &Setup,
        round: &Round,
        connection: &mut Connection,
        counts: bool,
    ) -> bool {
        let subscribed = self.subscribe(connection, setup).await;
        if subscribed {
            self.subscribed.increment();
            round.subscribed.increment();
            if counts {
                round.counted.increment();
            }
        }
        round.settled.increment();
        subscribed
    }

    /// Whether the subscription succeeded. A failure is recorded.
    pub(crate) async fn subscribe(&self, connection: &mut Connection, setup: &Setup) -> bool {
        connection.subscribe(&self.channel).await;
        let reply = connection.each(|event| match event {
            Event::Ping(_) | Event::Held(_) => {
                self.answering.pings.increment();
                ControlFlow::Continue(())
            }
            Event::Text(text) => match self.reader.read(text) {
                Received::Reply(error) => {
                    ControlFlow::Break(error.map_or(Ok(()), |code| Err(code.into_owned())))
                }
                _ => ControlFlow::Continue(()),
            },
            Event::Pong(_) | Event::Id(_) => ControlFlow::Continue(()),
        });
        let reply = async { reply.await.unwrap_or_else(|end| Err(kind_of_end(end))) };
        let result = timeout(setup.load.server.connect_timeout, reply).await;
        let result = result.unwrap_or_else(|_| Err("timeout".to_owned()));
        result.map_err(|code| setup.failures.record(&Failure::Subscribe(code))).is_ok()
    }
}
