//! The live view: progress bars and rates if stderr is a terminal, or lines of JSON.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tokio::time::interval;

use super::ProgressLog;
use crate::record::Recorder;
use crate::result::Group;

const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of bars: more would not fit on a terminal.
const MAX_BARS: usize = 16;

/// Progress of one activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) label: &'static str,
    pub(crate) done: u64,
    pub(crate) of: u64,
}

/// Prints the last sample to stdout. A closed stdout does not end the run.
pub(crate) fn print_sample(recorder: &Recorder) {
    let sample = recorder.last();
    let line = Group::default()
        .with("t", sample.t)
        .with("phase", recorder.current_phase().as_str())
        .and(Group::of(&sample))
        .to_json_line();
    let _ = writeln!(io::stdout(), "{line}");
}

/// Draws the live view until the future is dropped. indicatif draws nothing if stderr is not a terminal.
pub(crate) async fn draw(log: ProgressLog, recorder: &Recorder, read: impl Fn() -> Vec<Bar>) -> Infallible {
    let style = |template| ProgressStyle::with_template(template).expect("the template is valid");
    let head =
        log.bars().add(ProgressBar::new_spinner().with_style(style("{prefix:>10.bold} {elapsed} {msg}")));
    let bar_style = style("{prefix:>10} {wide_bar} {human_pos}/{human_len}");
    let new_bar = |bar: &Bar| ProgressBar::new(bar.of).with_style(bar_style.clone()).with_prefix(bar.label);
    let drawn: Vec<_> = read().iter().take(MAX_BARS).map(|bar| log.bars().add(new_bar(bar))).collect();
    let mut redraw = interval(REDRAW_INTERVAL);
    loop {
        redraw.tick().await;
        head.set_prefix(recorder.current_phase());
        head.set_message(headline(recorder));
        for (bar, drawn) in read().iter().zip(&drawn) {
            drawn.set_length(bar.of);
            drawn.set_position(bar.done);
        }
    }
}

/// Formats the number of connections, rates and errors as one line.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
fn headline(recorder: &Recorder) -> String {
    let last = recorder.last();
    let rate = |name| HumanCount(last.get(name).unwrap_or_default() as u64);
    let total = |name| HumanCount(recorder.monotonic_value(name).unwrap_or_default() as u64);
    // Connections of worker processes are known only from their samples.
    let open =
        Some(recorder.traffic().open()).filter(|open| *open > 0).map_or(rate("connections"), HumanCount);
    format!(
        "{open} open, {} connects/s, {} messages/s, {} pings/s, {} closes, {} errors",
        rate("connects"),
        rate("messages"),
        rate("pings"),
        total("closes"),
        total("errors"),
    )
}
