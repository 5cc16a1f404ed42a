//! The processes that the parent has started, and what they tell.

use std::env;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::line::Line;
use super::worker::start_line;
use crate::args::WorkerId;
use crate::progress::Log;
use crate::result::Measured;

/// From when all are prepared to when they begin.
const LEAD: Duration = Duration::from_millis(100);
/// How long they may take to tell what they have measured, and to end, once they are to stop.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines that are read and not yet looked at.
const MAX_LINES: usize = 64;

struct Child {
    part: WorkerId,
    process: Process,
    /// Its end is how it learns that it is to stop.
    input: Option<ChildStdin>,
    measured: Option<Measured>,
}

/// A line of a child's, or `None` at its end.
type Told = (usize, Option<String>);

pub(super) struct Processes {
    children: Vec<Child>,
    told: mpsc::Receiver<Told>,
    _readers: JoinSet<()>,
    log: Log,
}

impl Processes {
    pub(super) fn spawn(parts: &[WorkerId], log: &Log) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let (sender, told) = mpsc::channel(MAX_LINES);
        let (mut children, mut readers) = (Vec::with_capacity(parts.len()), JoinSet::new());
        for (index, part) in parts.iter().enumerate() {
            let mut command = Command::new(&program);
            command.args(env::args_os().skip(1)).args(["--worker", &part.to_string()]);
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut process =
                command.spawn().map_err(|error| format!("cannot start process {part}: {error}"))?;
            let (input, output) = (process.stdin.take(), process.stdout.take());
            if let Some(output) = output {
                readers.spawn_local(read(index, output, sender.clone()));
            }
            children.push(Child { part: *part, process, input, measured: None });
        }
        Ok(Self { children, told, _readers: readers, log: log.clone() })
    }

    /// Waits until all are prepared, and tells them when to begin.
    pub(super) async fn begin(&mut self) -> Result<SystemTime, String> {
        let mut waiting = self.children.len();
        while waiting > 0 {
            match self.next().await? {
                Some((_, Line::Ready)) => waiting -= 1,
                Some(_) => {}
                None => return Err("the processes have ended before the start".to_owned()),
            }
        }
        let start = SystemTime::now() + LEAD;
        for input in self.children.iter_mut().filter_map(|child| child.input.as_mut()) {
            // One that is gone already is noticed by its end.
            let _ = input.write_all(start_line(start).as_bytes()).await;
        }
        Ok(start)
    }

    /// Has all of them stop, and tell what they have measured so far. What they tell on the way goes to `on_line`.
    pub(super) async fn stop(
        &mut self,
        on_line: impl Fn(usize, Line) -> Result<(), String>,
    ) -> Result<(), String> {
        self.children.iter_mut().for_each(|child| child.input = None);
        let rest = async {
            while let Some((child, line)) = self.next().await? {
                on_line(child, line)?;
            }
            Ok(())
        };
        let rest = timeout(EXIT_TIMEOUT, rest).await;
        rest.unwrap_or_else(|_| Err("not all processes have ended when they were told to".to_owned()))
    }

    /// Ends those that have not ended by themselves, and gives what there is from each.
    pub(super) async fn end(self) -> Vec<Measured> {
        let mut all = Vec::with_capacity(self.children.len());
        for mut child in self.children {
            drop(child.input);
            if child.measured.is_none() || timeout(EXIT_TIMEOUT, child.process.wait()).await.is_err() {
                // An error is that of one that has just ended.
                let _ = child.process.kill().await;
            }
            all.extend(child.measured);
        }
        all
    }

    /// What a child tells next. `None` when all have told what they have measured.
    pub(super) async fn next(&mut self) -> Result<Option<(usize, Line)>, String> {
        while self.children.iter().any(|child| child.measured.is_none()) {
            let Some((index, text)) = self.told.recv().await else { break };
            let child = &mut self.children[index];
            let Some(text) = text else {
                if child.measured.is_none() {
                    return Err(self.gone(index).await);
                }
                continue;
            };
            match Line::parse(&text) {
                Some(Line::Measured(measured)) => {
                    child.measured = Some(*measured);
                    child.input = None;
                }
                Some(Line::Log(text)) => self.log.line(&format!("process {}: {text}", child.part)),
                Some(line) => return Ok(Some((index, line))),
                None => return Err(format!("process {} tells something odd: {text:.100}", child.part)),
            }
        }
        Ok(None)
    }

    async fn gone(&mut self, index: usize) -> String {
        let Child { part, process, .. } = &mut self.children[index];
        let pid = process.id().map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let how = match timeout(EXIT_TIMEOUT, process.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(_)) | Err(_) => "it has closed its output".to_owned(),
        };
        format!("process {part} (pid {pid}) has ended without a result: {how}")
    }
}

async fn read(index: usize, output: ChildStdout, told: mpsc::Sender<Told>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if told.send((index, Some(line))).await.is_err() {
            return;
        }
    }
    // Nobody is left to on_line it, or all is told.
    let _ = told.send((index, None)).await;
}
