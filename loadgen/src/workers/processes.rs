//! The worker processes that the parent has started, and their messages.

use std::env;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::message::{WorkerMessage, WorkerResult};
use super::worker::start_line;
use crate::args::WorkerId;
use crate::progress::ProgressLog;
use crate::scenario::MeasureError;

/// Time from when all workers are ready until the common start.
const START_DELAY: Duration = Duration::from_millis(100);
/// How long stopped workers may take to send their results and exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Exit code of a worker that refused the run and has reported why.
const EXIT_CODE_REFUSED: i32 = 2;
/// Capacity of the queue of lines that were read but not handled yet.
const MAX_LINES: usize = 64;

struct Worker {
    id: WorkerId,
    process: Child,
    /// Standard input of the worker. Closing it stops the worker.
    input: Option<ChildStdin>,
    result: Option<WorkerResult>,
}

/// A worker's index and a line of its output; `None` at the end of the output.
type WorkerLine = (usize, Option<String>);

pub(super) struct Processes {
    workers: Vec<Worker>,
    lines: mpsc::Receiver<WorkerLine>,
    _readers: JoinSet<()>,
    log: ProgressLog,
}

impl Processes {
    pub(super) fn spawn(ids: &[WorkerId], log: &ProgressLog) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let (sender, lines) = mpsc::channel(MAX_LINES);
        let (mut workers, mut readers) = (Vec::with_capacity(ids.len()), JoinSet::new());
        for (index, id) in ids.iter().enumerate() {
            let mut command = Command::new(&program);
            command.args(env::args_os().skip(1)).args(["--worker", &id.to_string()]);
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut process =
                command.spawn().map_err(|error| format!("cannot start process {id}: {error}"))?;
            let (input, output) = (process.stdin.take(), process.stdout.take());
            if let Some(output) = output {
                readers.spawn_local(read(index, output, sender.clone()));
            }
            workers.push(Worker { id: *id, process, input, result: None });
        }
        Ok(Self { workers, lines, _readers: readers, log: log.clone() })
    }

    /// Waits until all workers are ready, and sends them the start time.
    pub(super) async fn begin(&mut self) -> Result<SystemTime, MeasureError> {
        let mut waiting = self.workers.len();
        while waiting > 0 {
            match self.next().await? {
                Some((_, WorkerMessage::Ready)) => waiting -= 1,
                Some(_) => {}
                None => return Err("the worker processes ended before the start".to_owned().into()),
            }
        }
        let start = SystemTime::now() + START_DELAY;
        for input in self.workers.iter_mut().filter_map(|worker| worker.input.as_mut()) {
            // If the worker has exited, the end of its output shows it.
            let _ = input.write_all(start_line(start).as_bytes()).await;
        }
        Ok(start)
    }

    /// Stops all workers and waits for their results. Passes other messages to `on_message`.
    pub(super) async fn stop(
        &mut self,
        on_message: impl Fn(usize, WorkerMessage),
    ) -> Result<(), MeasureError> {
        self.workers.iter_mut().for_each(|worker| worker.input = None);
        let rest = async {
            while let Some((worker, message)) = self.next().await? {
                on_message(worker, message);
            }
            Ok(())
        };
        let rest = timeout(EXIT_TIMEOUT, rest).await;
        rest.unwrap_or_else(|_| Err("some worker processes did not exit when stopped".to_owned().into()))
    }

    /// Kills the workers that have not exited, and returns the results of all.
    pub(super) async fn end(self) -> Vec<WorkerResult> {
        let mut all = Vec::with_capacity(self.workers.len());
        for mut worker in self.workers {
            drop(worker.input);
            if worker.result.is_none() || timeout(EXIT_TIMEOUT, worker.process.wait()).await.is_err() {
                // This fails if the worker has just exited.
                let _ = worker.process.kill().await;
            }
            all.extend(worker.result);
        }
        all
    }

    /// Returns the next message and the index of its worker. `None` after all workers have sent their
    /// results.
    pub(super) async fn next(&mut self) -> Result<Option<(usize, WorkerMessage)>, MeasureError> {
        while self.workers.iter().any(|worker| worker.result.is_none()) {
            let Some((index, text)) = self.lines.recv().await else { break };
            let worker = &mut self.workers[index];
            let Some(text) = text else {
                if worker.result.is_none() {
                    return Err(self.failure(index).await);
                }
                continue;
            };
            match serde_json::from_str(&text) {
                Ok(WorkerMessage::Result(result)) => {
                    worker.result = Some(*result);
                    worker.input = None;
                }
                Ok(WorkerMessage::Log(text)) => self.log.line(&format!("process {}: {text}", worker.id)),
                Ok(message) => return Ok(Some((index, message))),
                Err(_) => {
                    return Err(format!("invalid line from process {}: {text:.100}", worker.id).into());
                }
            }
        }
        Ok(None)
    }

    async fn failure(&mut self, index: usize) -> MeasureError {
        let Worker { id, process, .. } = &mut self.workers[index];
        let pid = process.id().map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let how = match timeout(EXIT_TIMEOUT, process.wait()).await {
            Ok(Ok(status)) if status.code() == Some(EXIT_CODE_REFUSED) => {
                return MeasureError::Refused(format!("process {id} refused the run"));
            }
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(_)) | Err(_) => "it closed its output".to_owned(),
        };
        format!("process {id} (pid {pid}) ended without a result: {how}").into()
    }
}

async fn read(index: usize, output: ChildStdout, lines: mpsc::Sender<WorkerLine>) {
    let mut output = BufReader::new(output).lines();
    while let Ok(Some(line)) = output.next_line().await {
        if lines.send((index, Some(line))).await.is_err() {
            return;
        }
    }
    // This fails if the parent has stopped reading.
    let _ = lines.send((index, None)).await;
}
