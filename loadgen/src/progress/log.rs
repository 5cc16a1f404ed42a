//! Log lines on stderr.

use indicatif::{MultiProgress, ProgressDrawTarget};

/// Lines on stderr that do not tear the bars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    bars: MultiProgress,
    destination: Destination,
}

/// Where log lines go.
#[derive(Clone, Copy, Debug, Default)]
enum Destination {
    #[default]
    Stderr,
    /// The process that has started this one.
    Parent(fn(&str)),
    Nobody,
}

impl Log {
    /// Neither lines nor bars.
    pub(crate) fn silent() -> Self {
        Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            destination: Destination::Nobody,
        }
    }

    /// No bars, and lines for the process that has started this one.
    pub(crate) fn to_parent(tell: fn(&str)) -> Self {
        Self { destination: Destination::Parent(tell), ..Self::silent() }
    }

    pub(super) fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// From now on no bars are drawn.
    pub(crate) fn hide_bars(&self) {
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }

    #[expect(clippy::print_stderr, reason = "this is the one place that talks to the user while running")]
    pub(crate) fn line(&self, text: &str) {
        match self.destination {
            Destination::Stderr => self.bars.suspend(|| eprintln!("loadgen: {text}")),
            Destination::Parent(tell) => tell(text),
            Destination::Nobody => {}
        }
    }
}
