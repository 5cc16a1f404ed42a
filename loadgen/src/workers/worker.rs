//! The worker's side: waits for the parent, sends it everything, and exits when the parent stops it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::message::{SampleNumber, WorkerMessage, WorkerPhase, WorkerResult, WorkerSample};
use crate::record::Recorder;
use crate::result::{Values, to_json_line};
use crate::scenario::Measured;

/// The worker's connection to its parent: standard input, on which the parent sends the start time, and which
/// it closes to stop the worker.
#[derive(Debug)]
pub(crate) struct Parent(BufReader<pipe::Receiver>);

impl Parent {
    pub(crate) fn listen() -> Result<Self, String> {
        let input = io::stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd);
        input
            .map(|input| Self(BufReader::new(input)))
            .map_err(|error| format!("there is no parent process: {error}"))
    }

    /// Reports that this worker is ready, and waits until the start time.
    pub(crate) async fn wait_for_start(&mut self) -> Result<(), String> {
        send(&WorkerMessage::Ready);
        let mut line = String::new();
        let read = (&mut self.0).take(64).read_line(&mut line).await;
        let micros = read.ok().and_then(|_| line.trim().parse().ok());
        let start = UNIX_EPOCH + Duration::from_micros(micros.ok_or("the parent process has exited")?);
        sleep(start.duration_since(SystemTime::now()).unwrap_or_default()).await;
        Ok(())
    }

    /// Returns when the parent stops this process or has exited.
    pub(crate) async fn has_stopped(&mut self) {
        let mut rest = [0; 64];
        while self.0.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

/// Formats the line that sends the start time to a worker.
pub(super) fn start_line(start: SystemTime) -> String {
    format!("{}\n", start.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
}

pub(crate) fn send_log(text: &str) {
    send(&WorkerMessage::Log(text.to_owned()));
}

/// Sends the phase that the run has entered.
pub(crate) fn send_phase(recorder: &Recorder) {
    let (number, name) = (recorder.phases().len(), recorder.current_phase());
    send(&WorkerMessage::Phase(WorkerPhase { number, name, is_brief: recorder.is_sampling_fast() }));
}

pub(crate) fn send_sample(number: SampleNumber, is_last: bool, recorder: &Recorder, values: Values) {
    let is_fast = recorder.is_sampling_fast();
    send(&WorkerMessage::Sample(Box::new(WorkerSample { number, is_fast, is_last, values })));
}

pub(crate) fn send_result(measured: Measured) {
    send(&WorkerMessage::Result(Box::new(WorkerResult::of(measured))));
}

/// Sends a message. Errors are ignored: if the parent has exited, the end of standard input shows it.
fn send(message: &WorkerMessage) {
    let _ = writeln!(io::stdout(), "{}", to_json_line(message));
}
