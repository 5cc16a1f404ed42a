//! Connect at a rate, answer pings, stay.

use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::answering::Answering;
use super::{Pace, Scenario, Setup, open_all};
use crate::client::Connection;
use crate::progress::Bar;
use crate::record::{Counter, Latency, Recorder};
use crate::result::Group;

#[derive(Debug, Default)]
pub(crate) struct Hold {
    connected: Counter,
    connect: Latency,
    answering: Answering,
}

impl Scenario for Hold {
    fn record(&self, recorder: &Recorder) {
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        recorder.latency("connect", &self.connect);
    }

    async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            opened.record(&self.connect);
            held.spawn_local(self.clone().stay(opened.connection));
        })
        .await;
        setup.recorder.phase("hold");
        // Over when the time is, or when nothing is left to hold.
        let _ = timeout_at(pace.end(&setup.load), held.join_all()).await;
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
            .and(self.connect.summary("connect"))
            .with("close_codes", self.answering.close_codes.by_code())
    }
}

impl Hold {
    async fn stay(self: Rc<Self>, connection: Connection) {
        self.answering.answer(connection, |_| {}).await;
    }
}
