//! What is told while a scenario runs: bars when stderr is a terminal, and lines about errors in any case.

use std::convert::Infallible;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::interval;

const REDRAW: Duration = Duration::from_millis(100);

/// How far something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) label: &'static str,
    pub(crate) done: u64,
    pub(crate) of: u64,
}

/// Lines on stderr that do not tear the bars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    bars: MultiProgress,
    is_silent: bool,
}

impl Log {
    /// Neither lines nor bars.
    pub(crate) fn silent() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), is_silent: true }
    }

    #[expect(clippy::print_stderr, reason = "this is the one place that talks to the user while running")]
    pub(crate) fn line(&self, text: &str) {
        if self.is_silent {
            return;
        }
        self.bars.suspend(|| eprintln!("loadgen: {text}"));
    }
}

/// Draws the bars until it is dropped. indicatif draws nothing when stderr is not a terminal.
pub(crate) async fn draw(log: Log, read: impl Fn() -> Vec<Bar>) -> Infallible {
    let style = ProgressStyle::with_template("{prefix:>10} {wide_bar} {pos}/{len} {elapsed}")
        .expect("the template is a constant and valid");
    let drawn: Vec<ProgressBar> = read()
        .iter()
        .map(|bar| log.bars.add(ProgressBar::new(bar.of).with_style(style.clone()).with_prefix(bar.label)))
        .collect();
    let mut redraw = interval(REDRAW);
    loop {
        redraw.tick().await;
        for (bar, drawn) in read().iter().zip(&drawn) {
            drawn.set_length(bar.of);
            drawn.set_position(bar.done);
        }
    }
}
