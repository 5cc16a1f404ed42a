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
        warnings.extend(self.too_few_descriptors(descriptors));
        warnings.extend(self.late_timeouts());
        warnings
    }

    /// Fewer than limits.max_connections needs, or so few that those which are kept for all else are most of them.
    fn too_few_descriptors(&self, descriptors: u64) -> Option<String> {
        let (limit, fit) = (self.limits.max_connections, self.connections_of(descriptors));
        let what_for = if limit == usize::MAX && (fit as u64) < descriptors / 2 {
            "clients".to_owned()
        } else if limit != usize::MAX && fit < limit {
            format!("limits.max_connections = {limit}")
        } else {
            return None;
        };
        Some(format!(
            "the process may open {descriptors} descriptors, which leaves {fit} connections beside what the server needs itself, \
             too few for {what_for}: raise LimitNOFILE or `ulimit -n`"
        ))
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
