//! Drops all connections simultaneously, and then resumes all sessions simultaneously.

use std::rc::Rc;

use encke_client::{ClientEvent, Greeting, Ticket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::{Connects, Resumes};
use super::{Attempt, ConnectSchedule, OpenedConnection, Setup, open_all};
use crate::record::{Counter, Metrics};

#[derive(Debug)]
pub(crate) struct Storm {
    connects: Connects,
    dropped: Counter,
    resumes: Resumes,
    /// Counters of the connections before the drop and after the resume.
    answering: Rc<Answering>,
}

impl Storm {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            connects: Connects::new(metrics),
            dropped: metrics.counter("dropped"),
            resumes: Resumes::new(metrics),
            answering: Answering::new(metrics),
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.enter_phase("connect");
        let (drop_now, drop_signal) = watch::channel(());
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connects.record(&opened);
            held.spawn_local(self.clone().stay_until(drop_signal.clone(), opened));
        })
        .await;
        setup.enter_phase("hold");
        sleep_until(pace.end(&setup.load)).await;

        setup.enter_phase("resume");
        let dropped_at = Instant::now();
        drop(drop_now);
        let tickets: Vec<Ticket> = held.join_all().await.into_iter().flatten().collect();
        let attempts = (0..).zip(tickets).map(|(index, ticket)| Attempt {
            index,
            due: dropped_at,
            resume: Some(ticket),
        });
        let mut resumed = JoinSet::new();
        open_all(&setup, attempts, |opened| {
            self.resumes.record(&opened, dropped_at, &setup.failures);
            resumed.spawn_local(self.answering.clone().stay(opened.connection));
        })
        .await;
    }

    /// Holds a connection until all connections are dropped, which is signalled by dropping the sender.
    /// Returns the ticket for resuming, unless the server ended the connection first.
    async fn stay_until(
        self: Rc<Self>,
        mut drop_signal: watch::Receiver<()>,
        opened: OpenedConnection,
    ) -> Option<Ticket> {
        let OpenedConnection { mut connection, greeting: Greeting { mut ticket, .. }, .. } = opened;
        let note = |event: ClientEvent<'_>| ticket.note(event);
        tokio::select! {
            biased;
            _ = drop_signal.changed() => {
                self.dropped.increment();
                Some(ticket)
            }
            () = self.answering.answer(&mut connection, note) => None,
        }
    }
}
