//! What is in a snapshot, for people.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::load::{LoadError, Record, check, each, open};
use crate::channel::LogRecord;
use crate::clock::UnixTime;
use crate::session::StoredSession;

/// Lists what is in a snapshot, which stays where it is.
///
/// # Errors
/// [`LoadError`].
pub fn show(path: &Path, now: UnixTime) -> Result<String, LoadError> {
    check(open(path)?)?;
    let (mut text, mut logs, mut sessions) = (String::new(), 0, 0);
    each(open(path)?, |_, record| {
        let written = match record {
            Record::Header(header) => {
                let written = UnixTime::since_epoch(Duration::from_millis(header.written_ms));
                let age = whole_seconds(now.since(written));
                writeln!(text, "snapshot, version {}, by encke {}, {age} old", header.major, header.server)
            }
            Record::Log(log) => {
                logs += 1;
                write_log(&mut text, &log)
            }
            Record::Session(session) => {
                sessions += 1;
                write_session(&mut text, &session)
            }
            Record::Ended(ended) => {
                writeln!(
                    text,
                    "session {}: ended with {}, which its client was not told",
                    ended.id(),
                    ended.code
                )
            }
            Record::Revoked(revoked) => {
                writeln!(text, "user {:?}: tokens of before are refused", revoked.user)
            }
            Record::Telling(telling) => {
                let has = if telling.has_left { "left" } else { "joined" };
                writeln!(
                    text,
                    "session {}: {has} {:?}, which is not told yet",
                    telling.session(),
                    telling.channel
                )
            }
            Record::Reminder(reminder) => {
                let remaining = whole_seconds(reminder.remaining());
                writeln!(text, "reminder {:?}: due in {remaining}", reminder.key)
            }
        };
        written.expect("memory takes everything");
        Ok(())
    })?;
    writeln!(text, "{logs} logs, {sessions} sessions").expect("memory takes everything");
    Ok(text)
}

fn write_log(text: &mut String, log: &LogRecord) -> std::fmt::Result {
    let LogRecord { name, epoch, last, .. } = log;
    let gone = if log.is_retired() { ", gone" } else { "" };
    if log.is_elsewhere() {
        return writeln!(text, "log {name:?} epoch {epoch}: in the engine, up to {last}");
    }
    writeln!(text, "log {name:?} epoch {epoch}: {} messages, up to {last}{gone}", log.len())
}

fn write_session(text: &mut String, session: &StoredSession) -> std::fmt::Result {
    let machine = &session.machine;
    let outbox = &machine.outbox;
    let user = session.user().map_or(String::new(), |user| format!(" of {user:?}"));
    let unacked = outbox.ring.iter().fold(0_u64, |sum, run| sum.saturating_add(run.count));
    let follows = outbox.subscriptions.iter().flatten().filter(|it| it.live).count();
    writeln!(
        text,
        "session {}{user}: {}, {}, seq {}, {unacked} unacknowledged, {follows} subscriptions, {} to come back",
        session.id(),
        session.transport_name(),
        session.dialect_name(),
        outbox.dropped.saturating_add(unacked),
        whole_seconds(Duration::from_nanos(machine.reconnect_ns)),
    )
}

fn whole_seconds(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
