//! Log lines on stderr.

use indicatif::{MultiProgress, ProgressDrawTarget};

/// Writes lines to stderr without disturbing the progress bars.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressLog {
    bars: MultiProgress,
    destination: Destination,
}

/// Destination of log lines.
#[derive(Clone, Copy, Debug, Default)]
enum Destination {
    #[default]
    Stderr,
    /// The process that started this one.
    Parent(fn(&str)),
    Discard,
}

impl ProgressLog {
    /// Discards all lines and draws no bars.
    pub(crate) fn silent() -> Self {
        Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            destination: Destination::Discard,
        }
    }

    /// Passes lines to the process that started this one, and draws no bars.
    pub(crate) fn to_parent(send: fn(&str)) -> Self {
        Self { destination: Destination::Parent(send), ..Self::silent() }
    }

    pub(super) fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Stops drawing bars.
    pub(crate) fn hide_bars(&self) {
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }

    #[expect(clippy::print_stderr, reason = "this is the one place that talks to the user while running")]
    pub(crate) fn line(&self, text: &str) {
        match self.destination {
            Destination::Stderr => self.bars.suspend(|| eprintln!("loadgen: {text}")),
            Destination::Parent(send) => send(text),
            Destination::Discard => {}
        }
    }
}
