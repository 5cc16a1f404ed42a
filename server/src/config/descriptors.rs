//! Division of the process's file descriptors. Some are reserved, so that a server can be inspected and can
//! do its own work even when it has the maximum number of clients.

use super::limits::ClientDescriptors;
use super::types::{Config, EngineConfig};
use crate::events::WEBHOOK_LANES;

/// Minimum reserve for the server itself: descriptors that are open before any client connects (standard
/// streams, listeners, epolls, signals, locks: about two dozen), and descriptors that are open briefly
/// (snapshot file, certificates that are reloaded, name look-ups, connections that are closing).
const RESERVED_MIN: usize = 64;
/// Divisor for the reserve of the server itself, which is at least 1/256 of all descriptors: a higher limit
/// usually means a larger machine, with more threads that wait for sockets and more concurrent activity.
const RESERVED_DIVISOR: usize = 256;
/// Divisor for the admin listener's share: at most 1/64 of all descriptors, or [`ADMIN_MIN`] if that is more,
/// which is enough for some dashboards and Prometheus. For 65,536 descriptors, 1/64 is 1024, the default of
/// `limits.max_admin_connections`.
const ADMIN_DIVISOR: usize = 64;
const ADMIN_MIN: usize = 16;
/// Divisor for requests in flight to the backend, which need one descriptor each: at most 1/8 of all
/// descriptors.
const BACKEND_DIVISOR: usize = 8;
/// Reserve for Redis: the current connection, the previous one, a connection to a Sentinel, and name
/// look-ups.
const REDIS_RESERVE: usize = 8;
/// Reserve for fetching the issuer's key set and for the trace collector, each with one connection in use and
/// one that is closing.
const OUTBOUND_RESERVE: usize = 4;
/// Divisor for connections that are refused because a limit is reached: 1/64 of the clients' descriptors.
/// Each of these connections is open only briefly.
const REFUSALS_DIVISOR: usize = 64;
const REFUSALS_MIN: usize = 8;
const REFUSALS_MAX: usize = 1024;
/// Divisor for the clients' minimum share: at least 1/4 of all descriptors, no matter how few there are.
const CLIENTS_MIN_DIVISOR: usize = 4;

/// Minimum number of descriptors. With fewer, the server does not start, because it could not even report
/// what is wrong.
pub const MIN_DESCRIPTORS: u64 = 64;

/// Division of all descriptors.
struct DescriptorBudget {
    admin: usize,
    backend: usize,
    clients: ClientDescriptors,
}

impl Config {
    /// Lowers the limits to the values that this number of descriptors allows.
    pub fn fit_descriptors(&mut self, descriptors: u64) {
        let DescriptorBudget { admin, backend, clients } = self.descriptor_budget(descriptors);
        self.limits.max_admin_connections = admin;
        self.limits.descriptors = clients;
        if let Some(settings) = &mut self.backend {
            settings.max_in_flight = backend;
        }
    }

    /// Returns the maximum number of client connections for this number of descriptors.
    pub(super) fn max_connections_for(&self, descriptors: u64) -> usize {
        self.descriptor_budget(descriptors).clients.connections
    }

    fn descriptor_budget(&self, descriptors: u64) -> DescriptorBudget {
        let all = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let own = RESERVED_MIN.max(all / RESERVED_DIVISOR);
        let admin = self.limits.max_admin_connections.min(ADMIN_MIN.max(all / ADMIN_DIVISOR));
        let in_flight = self.backend.as_ref().map_or(0, |backend| backend.max_in_flight);
        let backend = in_flight.min((all / BACKEND_DIVISOR).max(1));
        let redis = if matches!(self.engine, EngineConfig::Redis(_)) { REDIS_RESERVE } else { 0 };
        let kept = own + admin + backend + redis + OUTBOUND_RESERVE + WEBHOOK_LANES * self.webhooks.len();
        let sockets = all.saturating_sub(kept).max(all / CLIENTS_MIN_DIVISOR);
        let telling = (sockets / REFUSALS_DIVISOR).clamp(REFUSALS_MIN, REFUSALS_MAX);
        let connections = sockets.saturating_sub(telling).max(1);
        // Add half of the server's reserve: about as many of its descriptors are open before any client
        // connects, and have low numbers.
        let below = (sockets + own / 2).min(all);
        DescriptorBudget { admin, backend, clients: ClientDescriptors { connections, below } }
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
    fn clients_get_most_descriptors_and_some_are_reserved() {
        let config = config(&[]);
        for (all, admin, connections, below) in [
            (64, 16, 8, 48),
            (200, 16, 108, 148),
            (1024, 16, 926, 972),
            (20_000, 312, 19_300, 19_645),
            (1_048_576, 1024, 1_042_428, 1_045_500),
        ] {
            let DescriptorBudget { admin: for_admin, clients, .. } = config.descriptor_budget(all);
            assert_eq!((for_admin, clients), (admin, ClientDescriptors { connections, below }), "{all}");
        }
    }

    /// Checks that enough descriptor numbers above the clients' bound remain for all other uses, for any
    /// number of descriptors.
    #[test]
    fn reserved_descriptors_suffice() {
        let others = [
            "backend.call=http://127.0.0.1/",
            "backend.max_in_flight=40",
            "engine.kind=redis",
            "engine.url=redis://127.0.0.1",
            r#"webhook=[{url="http://127.0.0.1/",events=["session.opened"],secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}]"#,
        ];
        for (flags, beside) in [(&[][..], 0), (&others, 40 + REDIS_RESERVE + WEBHOOK_LANES)] {
            let mut config = config(flags);
            for all in (400..20_000).step_by(7) {
                config.fit_descriptors(all);
                let below = config.limits.descriptors.below;
                let kept = usize::try_from(all).expect("it is small") - below;
                assert!(kept >= RESERVED_MIN / 2 + ADMIN_MIN + beside, "{all}: {kept}");
                assert!(config.limits.descriptors.connections + RESERVED_MIN / 2 < below, "{all}: {below}");
            }
        }
    }

    #[test]
    fn other_limits_are_lowered_and_never_raised() {
        let flags = ["backend.call=http://127.0.0.1/", "limits.max_admin_connections=9"];
        let mut config = config(&flags);
        config.fit_descriptors(1000);
        let in_flight = |config: &Config| config.backend.as_ref().expect("a backend").max_in_flight;
        assert_eq!((config.limits.max_admin_connections, in_flight(&config)), (9, 125));
        config.fit_descriptors(u64::MAX);
        assert_eq!((config.limits.max_admin_connections, in_flight(&config)), (9, 125));
    }
}
