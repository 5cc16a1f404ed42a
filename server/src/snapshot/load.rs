use std::collections::HashSet;
use std::fs::{File, rename};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::Outbox;

use super::claim::beside;
use super::frames::{END, ENDED, HEADER, LOG, REMINDER, REVOKED, Reader, SESSION, TELLING};
use super::header::{End, Header, MAJOR};
use super::write::sync_folder;
use super::{Kept, SnapshotSettings};
use crate::auth::RevocationRecord;
use crate::channel::{LogRecord, RestoredLogs};
use crate::clock::UnixTime;
use crate::reminders::ReminderRecord;
use crate::session::{Channel, RestoredSessions, SessionRef, StoredEnd, StoredSession, StoredTelling};

/// Why a snapshot is not read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("this is no snapshot")]
    Foreign,
    /// A later server has written it.
    #[error("a later server has written it: its version is {major}, and this one reads {MAJOR}")]
    Newer {
        /// The version.
        major: u16,
    },
    /// A record is wrong.
    #[error("the record at byte {at}: {problem}")]
    Damaged {
        /// Where it begins.
        at: u64,
        /// What is wrong with it.
        problem: String,
    },
}

impl LoadError {
    /// What the name of a file ends with that is set aside for this.
    fn ending(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "newer",
            Self::Io(_) | Self::Foreign | Self::Damaged { .. } => "damaged",
        }
    }
}

/// What came of a start's look for a snapshot.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// There was none.
    Nothing,
    /// So many logs and sessions go on; and what does not, though the file is whole. The channels are for the engine to go on with.
    All {
        logs: usize,
        sessions: usize,
        skipped: usize,
        age: Duration,
        channels: Vec<Arc<Channel>>,
        taken: Taken,
    },
    /// It was older than it may be, and is here now.
    TooOld { aside: PathBuf, age: Duration },
    /// It cannot be read, and is here now, unless it could not be moved.
    Unreadable { aside: PathBuf, error: LoadError },
}

/// A snapshot that a start has taken away and read. When this is dropped, the file is put back: the start has failed before anyone was served,
/// and the next one is to find it.
#[derive(Debug)]
pub(crate) struct Taken {
    path: PathBuf,
    taken: PathBuf,
    is_over: bool,
}

impl Taken {
    /// From here on clients are served, and the file says nothing that is still true.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        std::fs::remove_file(&self.taken)?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Self { path, taken, .. } = &*self;
        match rename(taken, path).and_then(|()| sync_folder(path)) {
            Ok(()) => {
                tracing::warn!(path = %path.display(), "the snapshot was put back, since the start has failed")
            }
            Err(error) => {
                tracing::error!(path = %taken.display(), %error, "the snapshot was not put back")
            }
        }
    }
}

/// Goes on with what a snapshot has. The file is taken away first: nothing reads it again.
///
/// # Errors
/// The file cannot be taken away.
pub(crate) fn load(settings: &SnapshotSettings, kept: &Kept, now: UnixTime) -> io::Result<Loaded> {
    let path = &settings.path;
    // A folder, above all: someone has named the one in which the file is to be, and that must stay where it is.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other(format!("{} is not a file", path.display())));
    }
    let taken = beside(path, "taken");
    match rename(path, &taken) {
        Ok(()) => sync_folder(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Nothing),
        Err(error) => return Err(error),
    }
    let set_aside = |ending| {
        let aside = beside(path, ending);
        let moved = rename(&taken, &aside);
        if moved.is_ok() { aside } else { taken.clone() }
    };
    let loaded = File::open(&taken).map_err(LoadError::from).and_then(|mut file| {
        let header = check(BufReader::new(&file))?;
        let age = now.since(UnixTime::since_epoch(Duration::from_millis(header.written_ms)));
        if age > settings.max_age {
            return Ok(Loaded::TooOld { aside: set_aside("stale"), age });
        }
        file.rewind()?;
        let (Counts { logs, sessions, skipped }, channels) = apply(BufReader::new(&file), kept)?;
        let taken = Taken { path: path.clone(), taken: taken.clone(), is_over: false };
        Ok(Loaded::All { logs, sessions, skipped, age, channels, taken })
    });
    match loaded {
        Ok(loaded) => Ok(loaded),
        Err(error) => Ok(Loaded::Unreadable { aside: set_aside(error.ending()), error }),
    }
}

/// The same from memory.
#[cfg(feature = "fuzzing")]
pub(crate) fn load_from(bytes: &[u8], kept: &Kept) -> Result<(), LoadError> {
    check(bytes)?;
    let (_, restored) = apply(bytes, kept)?;
    kept.channels.begin_anew(restored.iter().filter(|channel| channel.is_fed()));
    Ok(())
}

/// Looks at every record, so that a file that is damaged anywhere changes nothing.
pub(super) fn check(from: impl Read) -> Result<Header, LoadError> {
    let mut header = None;
    let (mut found, mut logs) = (End::default(), HashSet::new());
    each(from, |reader, record| {
        match record {
            Record::Header(read) => header = Some(read),
            Record::Log(log) => {
                found.logs += 1;
                if !logs.insert(log.number) {
                    return Err(reader.damaged("a log that comes twice"));
                }
            }
            Record::Session(session) => {
                found.sessions += 1;
                let outbox = &session.machine.outbox;
                let known = |log, _, _| logs.contains(&log).then_some(());
                Outbox::restore(outbox, 1, known).map_err(|error| reader.damaged(error))?;
            }
            Record::Ended(_) | Record::Revoked(_) | Record::Reminder(_) | Record::Telling(_) => {}
        }
        Ok(())
    })
    .and_then(|(reader, end)| {
        if end != found {
            return Err(reader.damaged("records are missing"));
        }
        header.ok_or_else(|| reader.damaged("the first record is missing"))
    })
}

/// Records that are logged when they are skipped. The rest is counted.
const MOST_TOLD: usize = 10;

/// How much goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    logs: usize,
    sessions: usize,
    /// What there is no room for, or what contradicts the rest.
    skipped: usize,
}

fn apply(from: impl Read, kept: &Kept) -> Result<(Counts, Vec<Arc<Channel>>), LoadError> {
    let Kept { sessions, channels, reminders } = kept;
    let mut counts = Counts::default();
    let mut logs = RestoredLogs::<SessionRef>::default();
    let mut restored = RestoredSessions::default();
    each(from, |reader, record| {
        let outcome: Result<(), String> = match record {
            Record::Header(header) => {
                sessions.restore_connections(header.connections);
                channels.restore_numbers(header.next_channel).map_err(|error| error.to_string())
            }
            Record::Log(log) => {
                counts.logs += 1;
                channels.restore(log, &mut logs).map_err(|error| error.to_string())
            }
            Record::Session(session) => {
                sessions.restore(*session, &mut logs, &mut restored).map_err(|error| error.to_string())
            }
            Record::Ended(ended) => sessions.restore_end(&ended).map_err(|error| error.to_string()),
            Record::Revoked(revoked) => {
                sessions.revocations().restore(&revoked).map_err(|error| error.to_string())
            }
            Record::Telling(telling) => sessions.restore_telling(&telling).map_err(|error| error.to_string()),
            Record::Reminder(reminder) => {
                let of_key = |error| format!("reminder {:?}: {error}", reminder.key);
                reminders.restore(&reminder).map_err(of_key)
            }
        };
        if let Err(problem) = outcome {
            counts.skipped += 1;
            if counts.skipped <= MOST_TOLD {
                tracing::error!(error = %reader.damaged(problem), "a record of the snapshot was skipped");
            }
        }
        Ok(())
    })?;
    counts.sessions = restored.len();
    let channels = channels.settle(logs);
    sessions.settle(restored);
    Ok((counts, channels))
}

pub(super) enum Record {
    Header(Header),
    Log(LogRecord),
    Session(Box<StoredSession>),
    Ended(StoredEnd),
    Revoked(RevocationRecord),
    Reminder(ReminderRecord),
    Telling(StoredTelling),
}

/// Reads every record but the last. Returns the reader, which stands there, and what it says.
pub(super) fn each<R: Read>(
    from: R,
    mut visit: impl FnMut(&Reader<R>, Record) -> Result<(), LoadError>,
) -> Result<(Reader<R>, End), LoadError> {
    let mut reader = Reader::new(from)?;
    let mut is_first = true;
    loop {
        let kind = reader.next()?.ok_or_else(|| reader.damaged("the file ends before the last record"))?;
        if is_first != (kind == HEADER) {
            return Err(reader.damaged("the first record is not the first"));
        }
        is_first = false;
        match kind {
            HEADER => {
                let header: Header = reader.decode()?;
                if header.major != MAJOR {
                    return Err(LoadError::Newer { major: header.major });
                }
                visit(&reader, Record::Header(header))?;
            }
            LOG => visit(&reader, Record::Log(reader.decode()?))?,
            SESSION => visit(&reader, Record::Session(Box::new(reader.decode()?)))?,
            REVOKED => visit(&reader, Record::Revoked(reader.decode()?))?,
            REMINDER => visit(&reader, Record::Reminder(reader.decode()?))?,
            TELLING => visit(&reader, Record::Telling(reader.decode()?))?,
            ENDED => visit(&reader, Record::Ended(reader.decode()?))?,
            END => {
                let end = reader.decode()?;
                return match reader.next()? {
                    None => Ok((reader, end)),
                    Some(_) => Err(reader.damaged("it comes after the last")),
                };
            }
            _ => {}
        }
    }
}

/// For what reads a snapshot that stays where it is.
pub(super) fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}
