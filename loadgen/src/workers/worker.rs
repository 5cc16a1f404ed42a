//! One of several processes: it waits for its parent, ends with it, and tells it everything.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::line::{WorkerSample, measured_line};
use crate::record::{Recorder, Timed};
use crate::result::Group;
use crate::result::Measured;

/// What the parent says, on this process's standard input: when to begin, and by its end, when to stop.
#[derive(Debug)]
pub(crate) struct Parent(BufReader<pipe::Receiver>);

impl Parent {
    pub(crate) fn listen() -> Result<Self, String> {
        let input = io::stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd);
        input
            .map(|input| Self(BufReader::new(input)))
            .map_err(|error| format!("there is no parent process: {error}"))
    }

    /// Says that all is prepared, and waits for the instant at which all parts begin.
    pub(crate) async fn wait_for_start(&mut self) -> Result<(), String> {
        tell(&Group::default().with("ready", true));
        let mut line = String::new();
        let read = (&mut self.0).take(64).read_line(&mut line).await;
        let micros = read.ok().and_then(|_| line.trim().parse().ok());
        let start = UNIX_EPOCH + Duration::from_micros(micros.ok_or("the parent process has gone")?);
        sleep(start.duration_since(SystemTime::now()).unwrap_or_default()).await;
        Ok(())
    }

    /// Returns when the parent wants this process to stop, or is gone itself.
    pub(crate) async fn has_stopped(&mut self) {
        let mut rest = [0; 64];
        while self.0.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

/// When to begin, as the parent says it.
pub(super) fn start_line(start: SystemTime) -> String {
    format!("{}\n", start.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
}

pub(crate) fn send_log(text: &str) {
    tell(&Group::default().with("log", text));
}

/// What was sampled last, and all that was timed for it. `second` is which one it ends, counted from 1.
pub(crate) fn send_sample(second: u64, is_last: bool, recorder: &Recorder, timed: &Timed) {
    let (phase, sample) = (recorder.current_phase(), recorder.last());
    tell(&WorkerSample { phase, second, is_last, sample, timed: timed.clone() }.to_json());
}

pub(crate) fn send_measured(measured: &Measured) {
    write(&measured_line(measured));
}

fn tell(line: &Group) {
    write(&line.to_json_line());
}

/// Whether the parent still listens is seen by its end of standard input.
fn write(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
