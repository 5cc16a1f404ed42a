//! The worker's side: it waits for its parent, ends with it, and sends it everything.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::message::{LookNumber, Message, WorkerPhase, WorkerResult, WorkerSample};
use crate::record::Recorder;
use crate::result::{Values, to_json_line};
use crate::scenario::Measured;

/// The parent's words on this process's standard input: the instant to begin. Its end is the signal to stop.
#[derive(Debug)]
pub(crate) struct Parent(BufReader<pipe::Receiver>);

impl Parent {
    pub(crate) fn listen() -> Result<Self, String> {
        let input = io::stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd);
        input
            .map(|input| Self(BufReader::new(input)))
            .map_err(|error| format!("there is no parent process: {error}"))
    }

    /// Reports that this worker is ready, and waits for the instant at which all begin.
    pub(crate) async fn wait_for_start(&mut self) -> Result<(), String> {
        send(&Message::Ready);
        let mut line = String::new();
        let read = (&mut self.0).take(64).read_line(&mut line).await;
        let micros = read.ok().and_then(|_| line.trim().parse().ok());
        let start = UNIX_EPOCH + Duration::from_micros(micros.ok_or("the parent process has gone")?);
        sleep(start.duration_since(SystemTime::now()).unwrap_or_default()).await;
        Ok(())
    }

    /// Returns when the parent stops this process, or is gone itself.
    pub(crate) async fn has_stopped(&mut self) {
        let mut rest = [0; 64];
        while self.0.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

/// The parent's line with the instant to begin at.
pub(super) fn start_line(start: SystemTime) -> String {
    format!("{}\n", start.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
}

pub(crate) fn send_log(text: &str) {
    send(&Message::Log(text.to_owned()));
}

/// The phase that the run is in now.
pub(crate) fn send_phase(recorder: &Recorder) {
    let (number, name) = (recorder.phases().len(), recorder.current_phase());
    send(&Message::Phase(WorkerPhase { number, name, is_brief: recorder.is_looked_at_closely() }));
}

pub(crate) fn send_sample(look: LookNumber, is_last: bool, recorder: &Recorder, values: Values) {
    let is_close = recorder.is_looked_at_closely();
    send(&Message::Sample(Box::new(WorkerSample { look, is_close, is_last, values })));
}

pub(crate) fn send_result(measured: Measured) {
    send(&Message::Result(Box::new(WorkerResult::of(measured))));
}

/// A parent that is gone is noticed by the end of standard input.
fn send(message: &Message) {
    let _ = writeln!(io::stdout(), "{}", to_json_line(message));
}
