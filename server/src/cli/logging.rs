//! Logging to standard error: pretty on a terminal, JSON otherwise, written by a separate thread.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat, parse_filter};

/// Capacity of the writer's queue, in lines. Additional lines are dropped and counted.
const BUFFERED_LINES: usize = 16 * 1024;

/// Longest time that the end of the process waits for space in the queue.
const FULL_QUEUE: Duration = Duration::from_millis(100);
/// Longest time that the end of the process waits for the queued lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The running logger. Dropping it writes the queued lines.
#[must_use]
#[derive(Debug)]
pub(super) struct Logging {
    queue: LineQueue,
    /// Disconnected when the writer's thread ends.
    ended: Receiver<()>,
}

/// Sends lines to the writer's thread, without waiting for it.
#[derive(Clone, Debug)]
struct LineQueue {
    /// `None` ends the writer's thread.
    lines: Sender<Option<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
}

impl Write for LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Some(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        if self.queue.lines.send_timeout(None, FULL_QUEUE).is_ok() {
            let _ = self.ended.recv_timeout(LAST_LINES);
        }
    }
}

/// Starts the thread that writes lines to `output`.
fn start_writer(mut output: impl Write + Send + 'static) -> Logging {
    let (lines, queued) = bounded::<Option<Vec<u8>>>(BUFFERED_LINES);
    let (end, ended) = bounded(0);
    let write = move || {
        // Drop this half of the channel when the thread ends.
        let _end: Sender<()> = end;
        for line in queued.iter().map_while(|line| line) {
            // A line that cannot be written is lost: there is no place to report the error.
            let _ = output.write_all(&line);
        }
    };
    thread::Builder::new().name("encke-log".to_owned()).spawn(write).expect("the process can start a thread");
    Logging { queue: LineQueue { lines, dropped: Arc::default() }, ended }
}

impl Logging {
    /// Starts logging to standard error. `RUST_LOG` overrides the configured level.
    pub(super) fn start(config: &LogConfig) -> Self {
        let logging = start_writer(io::stderr());
        let queue = logging.queue.clone();
        let overridden = env::var("RUST_LOG").ok().and_then(|filter| parse_filter(&filter).ok());
        let filter = overridden.or_else(|| parse_filter(&config.level).ok()).unwrap_or_default();
        let terminal = io::stderr().is_terminal();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || queue.clone()).with_ansi(terminal);
        let registry = tracing_subscriber::registry().with(filter);
        let json = match config.format {
            LogFormat::Auto => !terminal,
            LogFormat::Pretty => false,
            LogFormat::Json => true,
        };
        if json {
            registry.with(layer.json().flatten_event(true)).init();
        } else {
            registry.with(layer).init();
        }
        logging
    }

    /// Returns a function that reads how many lines were dropped.
    #[must_use]
    pub(super) fn dropped(&self) -> crate::LogLinesDropped {
        let dropped = Arc::clone(&self.queue.dropped);
        Box::new(move || dropped.load(Ordering::Relaxed))
    }
}
