//! How the descriptors that the process may open are shared out: so that clients, however many come, leave some for whoever looks what is
//! wrong, and for what the server does meanwhile.

use super::{Config, EngineConfig};
use crate::events::WEBHOOK_LANES;

/// What the process has open before anyone comes (standard streams, listeners, epolls, signals, locks: some two dozen), and what it opens for
/// a moment: the file of the snapshot, certificates that are read again, look-ups of names, connections that are on their way out.
const OWN: usize = 64;
/// Who allows more has a larger machine, with more threads that wait for sockets, and more that happens at once.
const OWN_PART: usize = 256;
/// Of all, connections of the admin listener: some dashboards and Prometheus, of some hundreds of descriptors, and all that it may have by default of 65,536.
const ADMIN_PART: usize = 64;
const FEWEST_ADMIN: usize = 16;
/// Of all, connections to the backend: each question under way has one.
const BACKEND_PART: usize = 8;
/// The connection to Redis, the one before, a Sentinel, and look-ups.
const REDIS: usize = 8;
/// The issuer's keys, and the collector of traces: one, and one that is closing.
const OTHERS: usize = 4;
/// Of those of clients, what connections have that are told that there is no room: each for a moment.
const TELLING_PART: usize = 64;
const FEWEST_TELLING: usize = 8;
const MOST_TELLING: usize = 1024;
/// However few there are, clients have so much of all.
const LEAST_PART: usize = 4;

/// With fewer than these the server does not start: it could not even say what is wrong.
pub const FEWEST_DESCRIPTORS: u64 = 64;

/// What clients may have of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDescriptors {
    /// Connections that have a place: one more is refused, as one beyond `limits.max_connections`.
    pub connections: usize,
    /// Sockets have numbers below this. The kernel gives the lowest that is free: where there is none, sockets wait to be accepted.
    pub below: usize,
}

/// Where nobody knows how many there are.
impl Default for ClientDescriptors {
    fn default() -> Self {
        Self { connections: usize::MAX, below: usize::MAX }
    }
}

/// The parts of all descriptors.
struct Shares {
    admin: usize,
    backend: usize,
    clients: ClientDescriptors,
}

impl Config {
    /// Lowers limits to what so many descriptors allow.
    pub fn fit_into(&mut self, descriptors: u64) {
        let Shares { admin, backend, clients } = self.shares(descriptors);
        self.limits.max_admin_connections = admin;
        self.limits.descriptors = clients;
        if let Some(settings) = &mut self.backend {
            settings.max_in_flight = backend;
        }
    }

    /// How many connections of clients so many descriptors allow.
    pub(super) fn connections_of(&self, descriptors: u64) -> usize {
        self.shares(descriptors).clients.connections
    }

    fn shares(&self, descriptors: u64) -> Shares {
        let all = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let own = OWN.max(all / OWN_PART);
        let admin = self.limits.max_admin_connections.min(FEWEST_ADMIN.max(all / ADMIN_PART));
        let in_flight = self.backend.as_ref().map_or(0, |backend| backend.max_in_flight);
        let backend = in_flight.min((all / BACKEND_PART).max(1));
        let redis = if matches!(self.engine, EngineConfig::Redis(_)) { REDIS } else { 0 };
        let kept = own + admin + backend + redis + OTHERS + WEBHOOK_LANES * self.webhooks.len();
        let sockets = all.saturating_sub(kept).max(all / LEAST_PART);
        let telling = (sockets / TELLING_PART).clamp(FEWEST_TELLING, MOST_TELLING);
        let connections = sockets.saturating_sub(telling).max(1);
        // Half of our own are open before anyone comes, and have low numbers.
        let below = (sockets + own / 2).min(all);
        Shares { admin, backend, clients: ClientDescriptors { connections, below } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn config(flags: &[&str]) -> Config {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Settings { flags, ..Settings::default() }.resolve().expect("valid")
    }

    #[test]
    fn most_are_for_clients_and_some_are_kept() {
        let config = config(&[]);
        for (all, admin, connections, below) in [
            (64, 16, 8, 48),
            (200, 16, 108, 148),
            (1024, 16, 926, 972),
            (20_000, 312, 19_300, 19_645),
            (1_048_576, 1024, 1_042_428, 1_045_500),
        ] {
            let Shares { admin: for_admin, clients, .. } = config.shares(all);
            assert_eq!((for_admin, clients), (admin, ClientDescriptors { connections, below }), "{all}");
        }
    }

    /// A number that clients cannot have is left for each of the others, whatever there is of them.
    #[test]
    fn what_is_kept_is_enough_for_all_others() {
        let others = [
            "backend.call=http://127.0.0.1/",
            "backend.max_in_flight=40",
            "engine.kind=redis",
            "engine.url=redis://127.0.0.1",
            r#"webhook=[{url="http://127.0.0.1/",events=["session.opened"],secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}]"#,
        ];
        for (flags, beside) in [(&[][..], 0), (&others, 40 + REDIS + WEBHOOK_LANES)] {
            let mut config = config(flags);
            for all in (400..20_000).step_by(7) {
                config.fit_into(all);
                let below = config.limits.descriptors.below;
                let kept = usize::try_from(all).expect("it is small") - below;
                assert!(kept >= OWN / 2 + FEWEST_ADMIN + beside, "{all}: {kept}");
                assert!(config.limits.descriptors.connections + OWN / 2 < below, "{all}: {below}");
            }
        }
    }

    #[test]
    fn limits_of_others_are_lowered_to_their_parts_and_never_raised() {
        let flags = ["backend.call=http://127.0.0.1/", "limits.max_admin_connections=9"];
        let mut config = config(&flags);
        config.fit_into(1000);
        let in_flight = |config: &Config| config.backend.as_ref().expect("a backend").max_in_flight;
        assert_eq!((config.limits.max_admin_connections, in_flight(&config)), (9, 125));
        config.fit_into(u64::MAX);
        assert_eq!((config.limits.max_admin_connections, in_flight(&config)), (9, 125));
    }
}
