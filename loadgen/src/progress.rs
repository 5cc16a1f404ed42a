//! Output while a scenario runs: lines on stderr, and progress bars if stderr is a terminal.

use std::io::{self, Write};

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::result::Sample;

/// Writes lines to stderr without disturbing the progress bars.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressLog {
    bars: MultiProgress,
    is_silent: bool,
}

impl ProgressLog {
    /// Discards all lines and draws no bars.
    pub(crate) fn silent() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), is_silent: true }
    }

    pub(crate) fn hide_bars(&self) {
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Writes a line to stderr. Errors are ignored, for example a closed pipe.
    pub(crate) fn line(&self, text: &str) {
        if !self.is_silent {
            let _ = self.bars.suspend(|| writeln!(io::stderr(), "loadgen: {text}"));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) label: &'static str,
    pub(crate) done: u64,
    pub(crate) of: u64,
}

/// The live view. indicatif draws nothing if stderr is not a terminal.
#[derive(Debug)]
pub(crate) struct LiveView {
    head: ProgressBar,
    bars: Vec<ProgressBar>,
}

impl LiveView {
    /// Adds the view to the terminal, with these bars.
    pub(crate) fn new(log: &ProgressLog, bars: &[Bar]) -> Self {
        let style = |template| ProgressStyle::with_template(template).expect("the template is valid");
        let head =
            log.bars.add(ProgressBar::new_spinner().with_style(style("{prefix:>10.bold} {elapsed} {msg}")));
        let bar_style = style("{prefix:>10} {wide_bar} {human_pos}/{human_len}");
        let new_bar =
            |bar: &Bar| ProgressBar::new(bar.of).with_style(bar_style.clone()).with_prefix(bar.label);
        Self { head, bars: bars.iter().map(|bar| log.bars.add(new_bar(bar))).collect() }
    }

    pub(crate) fn draw(&self, phase: String, open: u64, last: &Sample, bars: &[Bar]) {
        self.head.set_prefix(phase);
        self.head.set_message(headline(open, last));
        for (bar, drawn) in bars.iter().zip(&self.bars) {
            drawn.set_length(bar.of);
            drawn.set_position(bar.done);
        }
    }
}

/// Formats the number of connections and the counts of the last second as one line.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
fn headline(open: u64, last: &Sample) -> String {
    let rate = |name| HumanCount(last.get(name).unwrap_or_default() as u64);
    format!(
        "{} open, {} connects/s, {} messages/s, {} pings/s, {} closes/s, {} errors/s",
        HumanCount(open),
        rate("connects"),
        rate("messages"),
        rate("pings"),
        rate("closes"),
        rate("errors"),
    )
}
