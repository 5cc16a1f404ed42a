//! Details of faults: the latest events of the session, as a line of JSON in a file.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Number of latest events that are kept for each session.
const TRAIL_LENGTH: usize = 48;
/// Maximum number of lines in the file. Additional faults are only counted.
const MAX_LINES: u32 = 2000;

/// Event of a session. `number` is the number of a message.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum SessionEvent {
    Message {
        seq: u64,
        channel: usize,
        offset: u64,
        number: Option<u32>,
    },
    Gap {
        seq: u64,
        channel: usize,
        offsets: Option<(u64, u64)>,
    },
    /// The connection ended with this code.
    Ended {
        code: u16,
    },
    /// The client moves on purpose. `is_closed` tells whether it closes its connection first.
    Hop {
        is_closed: bool,
    },
    /// Nothing has arrived for the read timeout.
    Silence,
    /// An attempt to connect to this node after this seq.
    Attempt {
        node: usize,
        seq: u64,
    },
    Failed,
    Hello {
        node: usize,
        seq: u64,
        recovered: bool,
    },
    Subscribed {
        channel: usize,
        offset: u64,
    },
}

/// The latest events of a session.
#[derive(Debug, Default)]
pub(super) struct SessionTrail(VecDeque<(Instant, SessionEvent)>);

impl SessionTrail {
    pub(super) fn push(&mut self, event: SessionEvent) {
        if self.0.len() == TRAIL_LENGTH {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), event));
    }
}

/// Writes the details of faults, if there is a file for them.
#[derive(Debug)]
pub(super) struct FaultLog {
    file: Option<RefCell<File>>,
    lines: Cell<u32>,
    start: Instant,
    /// Time of `start` since the Unix epoch.
    unix: Duration,
}

impl FaultLog {
    pub(super) fn create(path: Option<&Path>) -> Result<Self, String> {
        let file = path.map(File::create).transpose();
        let file = file.map_err(|error| format!("--fault-log: {error}"))?.map(RefCell::new);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { file, lines: Cell::new(0), start: Instant::now(), unix })
    }

    /// Writes a fault of a session. `token` is the session's resume token, of which only the id is written.
    pub(super) fn write(
        &self,
        fault: &str,
        token: &str,
        channel: &str,
        details: &Value,
        trail: &SessionTrail,
    ) {
        let Some(file) = &self.file else { return };
        self.lines.set(self.lines.get() + 1);
        if self.lines.get() > MAX_LINES {
            return;
        }
        let session = token.split('.').next();
        let trail: Vec<_> = trail.0.iter().map(|(at, event)| (self.time(*at), event)).collect();
        let line = json!({
            "at": self.time(Instant::now()), "fault": fault, "session": session, "channel": channel,
            "details": details, "trail": trail,
        });
        // The result has the count, so a full disk does not end the run.
        let _ = writeln!(file.borrow_mut(), "{line}");
    }

    /// Returns a time in the format of the server's log.
    fn time(&self, at: Instant) -> String {
        let unix = self.unix + at.saturating_duration_since(self.start);
        humantime::format_rfc3339_millis(UNIX_EPOCH + unix).to_string()
    }
}
