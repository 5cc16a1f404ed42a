//! Logging to standard error: pretty on a terminal, JSON otherwise, written by a separate thread.

use std::io::IsTerminal;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Capacity of the writer's queue, in lines. Additional lines are dropped and counted.
const BUFFERED_LINES: usize = 16 * 1024;

/// The running logger. Dropping it writes the queued lines.
#[must_use]
#[derive(Debug)]
pub(super) struct Logging {
    dropped: ErrorCounter,
    _writer: WorkerGuard,
}

impl Logging {
    /// Starts logging to standard error. `RUST_LOG` overrides the configured level.
    pub(super) fn start(config: &LogConfig) -> Self {
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(BUFFERED_LINES)
            .lossy(true)
            .thread_name("encke-log")
            .finish(std::io::stderr());
        let dropped = writer.error_counter();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(&config.level));
        let terminal = std::io::stderr().is_terminal();
        let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(terminal);
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
        Self { dropped, _writer: guard }
    }

    /// Returns a function that reads how many lines were dropped.
    #[must_use]
    pub(super) fn dropped(&self) -> crate::LogLinesDropped {
        let dropped = self.dropped.clone();
        Box::new(move || dropped.dropped_lines() as u64)
    }
}
