//! Warnings about settings that are valid but likely to cause trouble.

use std::time::Duration;

use super::types::Config;
use crate::snapshot::SnapshotSettings;

impl Config {
    /// Returns warnings about settings that are valid but likely to cause trouble, one sentence each.
    /// `descriptors` is the process's limit of file descriptors.
    #[must_use]
    pub fn warnings(&self, descriptors: u64) -> Vec<String> {
        const PROXIES_CUT_AT: Duration = Duration::from_secs(60);
        /// Longest poll without a warning: 5 s shorter than proxies wait, so that the empty response arrives
        /// first.
        const LONGEST_POLL: Duration = Duration::from_secs(55);
        let mut warnings = Vec::new();
        if self.session.ping_interval > PROXIES_CUT_AT {
            let interval = humantime::format_duration(self.session.ping_interval);
            warnings.push(format!(
                "session.ping_interval is {interval}, but many proxies close connections that are silent for 60s"
            ));
        }
        if self.session.poll_hold > LONGEST_POLL {
            let hold = humantime::format_duration(self.session.poll_hold);
            warnings.push(format!(
                "session.poll_hold is {hold}, but many proxies give up a request that is not answered within 60s"
            ));
        }
        warnings.extend(self.too_few_descriptors(descriptors));
        warnings.extend(self.late_timeouts());
        warnings.extend(self.snapshot.as_ref().and_then(SnapshotSettings::warning));
        warnings
    }

    /// Returns a warning if `limits.max_connections` needs more descriptors than there are, or if fewer than
    /// half of the descriptors are left for clients.
    fn too_few_descriptors(&self, descriptors: u64) -> Option<String> {
        let (limit, fit) = (self.limits.max_connections, self.max_connections_for(descriptors));
        let problem = if limit == usize::MAX && (fit as u64) < descriptors / 2 {
            "fewer than half of the descriptors".to_owned()
        } else if limit != usize::MAX && fit < limit {
            format!("too few for limits.max_connections = {limit}")
        } else {
            return None;
        };
        Some(format!(
            "the process may open {descriptors} descriptors, which leaves {fit} connections for clients, {problem}: \
             raise LimitNOFILE or `ulimit -n`"
        ))
    }

    /// Returns how late a timeout may fire because of the wheel's scheme.
    fn scheme_lateness(&self, timeout: Duration) -> Duration {
        let wheel = self.wheel_settings();
        wheel.scheme.lateness(wheel.tick, timeout.saturating_add(wheel.longest_sleep()))
    }

    /// Returns a warning about timeouts that the scheme may delay by more than half of the shortest timeout.
    fn late_timeouts(&self) -> Option<String> {
        let (key_of_shortest, shortest) = self.timeouts().min_by_key(|(_, timeout)| *timeout)?;
        let late = self.timeouts().filter_map(|(key, timeout)| {
            let late = self.scheme_lateness(timeout);
            (late > shortest / 2).then(|| format!("{key} up to {}", humantime::format_duration(late)))
        });
        let late: Vec<_> = late.collect();
        (!late.is_empty()).then(|| {
            format!(
                "with timers.scheme = {}, some timeouts may be late by more than half of {key_of_shortest} ({}): {}",
                self.timers.scheme,
                humantime::format_duration(shortest),
                late.join(", ")
            )
        })
    }
}
