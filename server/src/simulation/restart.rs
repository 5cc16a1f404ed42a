//! One process after another.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Server;
use crate::snapshot::{self, Kept, Loaded, SnapshotSettings};

/// What a start has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoneOn {
    /// No file.
    WithNothing,
    /// A file, and so many of its records have been skipped.
    With {
        /// Sessions that go on.
        sessions: usize,
        /// What does not, though the file is whole.
        skipped: usize,
    },
    /// A file that was older than it may be.
    TooOld,
    /// A file that cannot be read, and why.
    Unreadable(String),
}

impl Server {
    /// The first part of its end: it publishes nothing any more, sessions move, and none begins.
    pub fn move_all(&self) {
        let client = &self.public.client;
        self.public.stop.cancel();
        client.reminders.close();
        client.logs.channels.close();
        client.sessions.move_all();
    }

    /// The last part: sessions and logs are written down.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write_down(&self, path: &Path) -> io::Result<()> {
        let now = self.public.client.timeouts.clock().unix_now();
        snapshot::write(path, &self.kept(), now).map(drop)
    }

    /// At its start: it goes on with what the server before has written, unless that is too old.
    ///
    /// # Errors
    /// Those of the system.
    pub fn go_on(&self, path: &Path, max_age: Duration) -> io::Result<GoneOn> {
        let settings = SnapshotSettings { path: path.to_owned(), max_age };
        let now = self.public.client.timeouts.clock().unix_now();
        let mut restored = Vec::new();
        let gone_on = match snapshot::load(&settings, &self.kept(), now)? {
            Loaded::Nothing => GoneOn::WithNothing,
            Loaded::All { sessions, skipped, channels, taken, .. } => {
                taken.remove()?;
                restored = channels;
                GoneOn::With { sessions, skipped }
            }
            Loaded::TooOld { .. } => GoneOn::TooOld,
            Loaded::Unreadable { error, .. } => GoneOn::Unreadable(error.to_string()),
        };
        self.public.client.logs.engine.go_on_with(restored);
        self.public.client.reminders.begin();
        self.public.client.sessions.begin_telling();
        Ok(gone_on)
    }

    /// At the start of one that has no file.
    pub fn begin_anew(&self) {
        self.public.client.logs.engine.go_on_with(Vec::new());
        self.public.client.sessions.begin_telling();
    }

    fn kept(&self) -> Kept {
        let client = &self.public.client;
        Kept {
            sessions: std::sync::Arc::clone(&client.sessions),
            channels: std::sync::Arc::clone(&client.logs.channels),
            reminders: std::sync::Arc::clone(&client.reminders),
        }
    }
}
