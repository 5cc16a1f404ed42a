//! Connects all clients and subscribes them.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::SubscriberGroup;
use crate::client::Received;
use crate::client::{ClientConnection, ClientEvent};
use crate::client::{ClientFailure, kind_of_end};
use crate::scenario::channel::round::PublishRound;
use crate::scenario::{Attempt, ConnectSchedule, OpenedConnection, Setup, open_all};

/// How often to check whether all subscriptions have been answered.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

impl SubscriberGroup {
    /// Connects all clients, and waits until every subscription that `on_open` starts has been answered.
    pub(crate) async fn connect_all(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<PublishRound>,
        on_open: impl FnMut(OpenedConnection),
    ) {
        self.connect_all_with(setup, round, |attempt| attempt, on_open).await;
    }

    /// Like [`Self::connect_all`], but `adapt` changes how individual clients connect.
    pub(crate) async fn connect_all_with(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<PublishRound>,
        adapt: impl Fn(Attempt) -> Attempt,
        mut on_open: impl FnMut(OpenedConnection),
    ) {
        self.begin(vec![Rc::clone(round)]);
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("subscribe");
        open_all(setup, pace.attempts(&setup.load).map(adapt), |opened| {
            self.connected.increment();
            round.connected.increment();
            self.connects.record(&opened);
            on_open(opened);
        })
        .await;
        while round.settled.get() < round.connected.get() {
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Subscribes a connection that has just been opened. A failure is recorded.
    pub(crate) async fn join(
        &self,
        setup: &Setup,
        round: &PublishRound,
        connection: &mut ClientConnection,
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

    /// Subscribes, and returns whether it succeeded. A failure is recorded.
    pub(crate) async fn subscribe(&self, connection: &mut ClientConnection, setup: &Setup) -> bool {
        connection.subscribe(&self.channel).await;
        let reply = connection.each(|event| match event {
            ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) => {
                self.answering.pings.increment();
                ControlFlow::Continue(())
            }
            ClientEvent::Text(text) => match self.reader.read(text) {
                Received::Reply(error) => {
                    ControlFlow::Break(error.map_or(Ok(()), |code| Err(code.into_owned())))
                }
                _ => ControlFlow::Continue(()),
            },
            ClientEvent::Pong(_) | ClientEvent::Id(_) => ControlFlow::Continue(()),
        });
        let reply = async { reply.await.unwrap_or_else(|end| Err(kind_of_end(end))) };
        let result = timeout(setup.load.server.connect_timeout, reply).await;
        let result = result.unwrap_or_else(|_| Err("timeout".to_owned()));
        result.map_err(|code| setup.failures.record(&ClientFailure::Subscribe(code))).is_ok()
    }
}
