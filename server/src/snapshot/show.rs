//! Human-readable listing of a snapshot.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use encke_broker::channel::LogRecord;
use encke_timeouts::clock::UnixTime;

use super::error::LoadError;
use super::load::{SnapshotRecord, check, for_each_record, open};
use crate::session::StoredSession;

/// Lists the contents of a snapshot without moving the file.
///
/// # Errors
/// [`LoadError`].
pub fn show(path: &Path, now: UnixTime) -> Result<String, LoadError> {
    check(open(path)?)?;
    let (mut text, mut logs, mut sessions, mut kept) = (String::new(), 0, 0, 0);
    for_each_record(open(path)?, |_, record| {
        let written = match record {
            SnapshotRecord::Header(header) => {
                let written = UnixTime::since_epoch(Duration::from_millis(header.written_ms));
                let age = whole_seconds(now.since(written));
                writeln!(text, "snapshot, version {}, by encke {}, {age} old", header.major, header.server)
            }
            SnapshotRecord::Log(log) => {
                logs += 1;
                write_log(&mut text, &log)
            }
            SnapshotRecord::Session(session) => {
                sessions += 1;
                write_session(&mut text, &session)
            }
            SnapshotRecord::Ended(ended) => {
                writeln!(text, "session {}: ended with {}, client not notified yet", ended.id(), ended.code)
            }
            SnapshotRecord::Revoked(revoked) => {
                writeln!(text, "user {:?}: earlier tokens are rejected", revoked.user)
            }
            SnapshotRecord::PresenceChange(telling) => {
                let has = if telling.has_left { "left" } else { "joined" };
                writeln!(
                    text,
                    "session {}: {has} {:?}, not published yet",
                    telling.session(),
                    telling.channel
                )
            }
            SnapshotRecord::Positions(positions) => {
                kept += positions.len();
                Ok(())
            }
            SnapshotRecord::Reminder(reminder) => {
                let remaining = whole_seconds(reminder.remaining());
                writeln!(text, "reminder {:?}: due in {remaining}", reminder.key)
            }
        };
        written.expect("writing to memory cannot fail");
        Ok(())
    })?;
    let kept = if kept > 0 { format!(", positions of {kept} removed channels") } else { String::new() };
    writeln!(text, "{logs} logs, {sessions} sessions{kept}").expect("writing to memory cannot fail");
    Ok(text)
}

fn write_log(text: &mut String, log: &LogRecord) -> std::fmt::Result {
    let LogRecord { name, epoch, last, .. } = log;
    let gone = if log.is_retired() { ", gone" } else { "" };
    if log.is_remote() {
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
        "session {}{user}: {}, {}, seq {}, {unacked} unacknowledged, {follows} subscriptions, {} left to resume",
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
