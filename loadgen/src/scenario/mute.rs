//! Stops answering pings on a share of the connections, and measures when the server closes them.

use std::rc::Rc;

use encke_client::ClientEvent;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::answering::Answering;
use super::connects::Connects;
use super::deadline::{TimeoutExpiries, TimeoutStart, ended_for_silence, objection_if_too_short};
use super::{ConnectSchedule, OpenedConnection, Setup, open_all};
use crate::args::MuteOptions;
use crate::record::{Counter, Metrics};

#[derive(Debug)]
pub(crate) struct Mute {
    share: f64,
    connects: Connects,
    muted: Counter,
    /// Number of mute connections that the server closed for their silence, in time or not.
    closed: Counter,
    /// Number of mute connections that ended with a code unrelated to silence.
    other_closes: Counter,
    deadline: TimeoutExpiries,
    /// Counters of the answering connections.
    answering: Rc<Answering>,
}

impl Mute {
    pub(super) fn new(options: &MuteOptions, metrics: &Metrics) -> Self {
        let names = ["muted", "closed", "other_closes"];
        let [muted, closed, other_closes] = names.map(|name| metrics.counter(name));
        let open = [&muted, &closed, &other_closes].map(Counter::clone);
        metrics.computed("still_open", move || {
            let [muted, closed, other] = open.each_ref().map(Counter::get);
            muted - closed - other
        });
        Self {
            share: options.share,
            connects: Connects::new(metrics),
            muted,
            closed,
            other_closes,
            deadline: TimeoutExpiries::new(metrics),
            answering: Answering::new(metrics),
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.enter_phase("connect");
        let (mut muted, mut answering) = (JoinSet::new(), JoinSet::new());
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            if let Some(why) = objection_if_too_short(&setup.load, &opened.greeting) {
                setup.refuse(why);
            }
            self.connects.record(&opened);
            if is_chosen(opened.index, self.share) {
                self.muted.increment();
                muted.spawn_local(self.clone().run_mute_connection(setup.clone(), opened));
            } else {
                answering.spawn_local(self.answering.clone().stay(opened.connection));
            }
        })
        .await;
        setup.enter_phase("silence");
        // This ends when the time is up, or when the last mute connection has ended.
        let _ = timeout_at(pace.end(&setup.load), muted.join_all()).await;
    }

    async fn run_mute_connection(self: Rc<Self>, setup: Rc<Setup>, opened: OpenedConnection) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        connection.mute();
        let mut first_ping = None;
        let listened = connection.listen(|event| {
            if let ClientEvent::Ping(_) = event {
                // Use the first ping: some servers ping again while they wait.
                first_ping.get_or_insert_with(|| TimeoutStart::now(&setup.stalls));
            }
        });
        let end = listened.await;
        if !ended_for_silence(end, setup.load.server.target) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired(first_ping, Instant::now(), greeting.pong_timeout);
    }
}

/// Returns whether the connection with this index belongs to the share. Of the first n connections,
/// floor(n * share) do.
fn is_chosen(index: u32, share: f64) -> bool {
    (f64::from(index) + 1.0) * share >= (f64::from(index) * share).floor() + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_spread_evenly() {
        for (share, chosen_of_10) in [(1.0, 10), (0.5, 5), (0.25, 2), (0.05, 0), (0.0, 0)] {
            let chosen = (0..10).filter(|index| is_chosen(*index, share)).count();
            assert_eq!(chosen, chosen_of_10, "{share}");
        }
        assert!(!is_chosen(0, 0.5) && is_chosen(1, 0.5));
    }
}
