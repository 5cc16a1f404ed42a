//! What is not wrong, but likely trouble.

use std::time::Duration;

use super::Config;

impl Config {
    /// What is not wrong, but likely trouble: a sentence each. `descriptors` is how many the process may open.
    #[must_use]
    pub fn warnings(&self, descriptors: u64) -> Vec<String> {
        const PROXIES_CUT_AT: Duration = Duration::from_secs(60);
        /// The answer has to come first.
        const LONGEST_POLL: Duration = Duration::from_secs(55);
        /// Listeners, epoll, log, and a few to spare.
        const DESCRIPTORS_BESIDE_CONNECTIONS: u64 = 64;
        let mut warnings = Vec::new();
        if self.session.ping_interval > PROXIES_CUT_AT {
            let interval = humantime::format_duration(self.session.ping_interval);
            warnings.push(format!(
                "session.ping_interval is {interval}, but many proxies cut connections that are silent for 60s"
            ));
        }
        if self.session.poll_hold > LONGEST_POLL {
            let hold = humantime::format_duration(self.session.poll_hold);
            warnings.push(format!(
                "session.poll_hold is {hold}, but many proxies give up requests that are not answered within 60s"
            ));
        }
        let limit = self.limits.max_connections;
        if limit != usize::MAX && descriptors < (limit as u64).saturating_add(DESCRIPTORS_BESIDE_CONNECTIONS)
        {
            warnings.push(format!(
                "the process may open {descriptors} descriptors, too few for limits.max_connections = {limit}: \
                 raise LimitNOFILE or `ulimit -n`"
            ));
        }
        warnings.extend(self.late_timeouts());
        warnings
    }

    /// How late a timeout may pass for its scheme's sake.
    fn lateness(&self, timeout: Duration) -> Duration {
        let wheel = self.wheel();
        wheel.scheme.lateness(wheel.tick, timeout.saturating_add(wheel.longest_sleep()))
    }

    /// Timeouts that the scheme may make pass later than others take.
    fn late_timeouts(&self) -> Option<String> {
        let (key_of_shortest, shortest) = self.timeouts().min_by_key(|(_, timeout)| *timeout)?;
        let late = self.timeouts().filter_map(|(key, timeout)| {
            let late = self.lateness(timeout);
            (late > shortest / 2).then(|| format!("{key} up to {}", humantime::format_duration(late)))
        });
        let late: Vec<_> = late.collect();
        (!late.is_empty()).then(|| {
            format!(
                "with timers.scheme = {}, some timeouts may pass late by more than half of {key_of_shortest} ({}): {}",
                self.timers.scheme,
                humantime::format_duration(shortest),
                late.join(", ")
            )
        })
    }
}
