//! A thread that owns the timers of sessions. It receives commands over a channel and sleeps until the wheel
//! has something to do.
//!
//! ```sh
//! cargo run -p encke-wheel --example thread
//! ```
//!
//! A session is pinged after 40 ms of silence, and again every 40 ms, until it expires after 190 ms of
//! silence. `SessionTimers` makes all decisions without a clock, so it is tested with a timetable. The thread
//! around it has the clock, the channel and the sleep.
#![allow(clippy::print_stdout, reason = "prints the events")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use encke_wheel::{OwnerExpiry, Owners, Tick, TimerKey, WorkBudget};

const PING: usize = 0;
const EXPIRY: usize = 1;

/// Silence after which a session is pinged, in ticks of one millisecond.
const PING_AFTER: u64 = 40;
const EXPIRY_AFTER: u64 = 190;

/// Maximum number of timers handled before the thread checks for new commands.
const BUDGET: u64 = 256;

#[derive(Debug)]
enum SessionCommand {
    Open(&'static str),
    Received(TimerKey),
    Close(TimerKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionEvent {
    Opened(&'static str, TimerKey),
    Ping(&'static str, TimerKey),
    Expired(&'static str),
}

/// Sessions as owners with two timers each, so that handling an expiry needs no look-up.
struct SessionTimers {
    wheel: Owners<&'static str, 2>,
}

impl SessionTimers {
    fn new(now: Tick) -> Self {
        SessionTimers { wheel: Owners::new(now) }
    }

    fn handle(&mut self, now: Tick, command: SessionCommand) -> Option<SessionEvent> {
        match command {
            SessionCommand::Open(name) => {
                let key = self.wheel.insert(name);
                self.postpone(now, key);
                return Some(SessionEvent::Opened(name, key));
            }
            // Both commands may arrive after the session has expired. In that case its key is stale, even if
            // another session uses the same memory.
            SessionCommand::Received(key) => self.postpone(now, key),
            SessionCommand::Close(key) => drop(self.wheel.remove(key)),
        }
        None
    }

    /// Arms both timers, counting from `now` rather than from the wheel's current tick, which may lag behind.
    fn postpone(&mut self, now: Tick, key: TimerKey) {
        if let Some(mut session) = self.wheel.get_mut(key) {
            session.arm(PING, now.saturating_add(PING_AFTER));
            session.arm(EXPIRY, now.saturating_add(EXPIRY_AFTER));
        }
    }

    /// Returns the next event that is due by now, or `None` if no event is due or the budget is exhausted.
    fn due(&mut self, now: Tick, work: &mut WorkBudget) -> Option<SessionEvent> {
        // The expired timer is no longer armed, so a ping has to be armed again. The wheel returns the
        // session along with the timer, so no look-up is needed.
        let OwnerExpiry::Due(mut due) = self.wheel.expire_next(now, work) else { return None };
        let (name, key) = (*due.owner.value(), due.owner.key());
        if due.timer == PING {
            // Count from the deadline rather than from now, so that oversleeping does not delay the following
            // pings.
            due.owner.arm(PING, due.deadline.saturating_add(PING_AFTER));
            return Some(SessionEvent::Ping(name, key));
        }
        // Removing the owner removes its other timer too.
        self.wheel.remove(key);
        Some(SessionEvent::Expired(name))
    }
}

/// Runs until all command senders are dropped. Returns the number of remaining sessions.
fn run(commands: &Receiver<SessionCommand>, events: &Sender<SessionEvent>) -> usize {
    let start = Instant::now();
    // Round down, so that no timer is early.
    let now = || Tick(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    let mut sessions = SessionTimers::new(now());
    // Ignore send errors: commands are executed even if the receiver of events has been dropped.
    let report = |event: Option<SessionEvent>| event.map(|event| events.send(event).is_ok());
    loop {
        let mut work = WorkBudget::new(BUDGET);
        while report(sessions.due(now(), &mut work)).is_some() {}

        // While due timers remain because the budget ran out, `next_wakeup` returns the current tick, and the
        // thread does not sleep.
        let command = match sessions.wheel.next_wakeup(Tick::MAX) {
            Some(wakeup) => {
                // This may be the deadline of a timer that has since been postponed. In that case the thread
                // finds nothing due and sleeps again.
                let wakeup = Duration::from_millis(wakeup.0);
                commands.recv_timeout(wakeup.saturating_sub(start.elapsed()))
            }
            None => commands.recv().map_err(RecvTimeoutError::from),
        };
        match command {
            Ok(command) => drop(report(sessions.handle(now(), command))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sessions.wheel.len(),
        }
    }
}

fn main() {
    let (commands, to_handle) = channel();
    let (to_report, events) = channel();
    let wheel_thread = thread::spawn(move || run(&to_handle, &to_report));
    let command = |command| commands.send(command).expect("the thread outlives the sender");
    for name in ["silent", "lively", "leaving"] {
        command(SessionCommand::Open(name));
    }
    let mut pings = 0;
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).expect("the silent session expires");
        println!("{event:?}");
        match event {
            SessionEvent::Opened("leaving", key) => command(SessionCommand::Close(key)),
            SessionEvent::Ping("lively", key) => command(SessionCommand::Received(key)),
            SessionEvent::Ping("silent", _) => pings += 1,
            SessionEvent::Expired("silent") => break,
            SessionEvent::Opened(..) | SessionEvent::Ping(..) | SessionEvent::Expired(_) => {}
        }
    }
    // Expect pings after 40, 80, 120 and 160 ms, no matter how late the thread wakes.
    assert_eq!(pings, 4);
    drop(commands);
    let left = wheel_thread.join().expect("the thread does not panic");
    println!("{left} left");
    assert!(left <= 1, "the silent session expired, another was closed");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sessions: &mut SessionTimers, now: u64) -> Vec<SessionEvent> {
        let mut work = WorkBudget::unlimited();
        std::iter::from_fn(|| sessions.due(Tick(now), &mut work)).collect()
    }

    #[test]
    fn a_silent_session_is_pinged_and_expires() {
        let mut sessions = SessionTimers::new(Tick(0));
        let Some(SessionEvent::Opened("it", key)) = sessions.handle(Tick(0), SessionCommand::Open("it"))
        else {
            panic!("not opened")
        };
        assert_eq!(at(&mut sessions, 39), []);
        assert_eq!(at(&mut sessions, 40), [SessionEvent::Ping("it", key)]);
        sessions.handle(Tick(50), SessionCommand::Received(key));
        assert_eq!(at(&mut sessions, 89), []);
        assert_eq!(at(&mut sessions, 90), [SessionEvent::Ping("it", key)]);
        assert_eq!(at(&mut sessions, 239), [SessionEvent::Ping("it", key); 3]);
        assert_eq!(at(&mut sessions, 240), [SessionEvent::Expired("it")]);
        sessions.handle(Tick(241), SessionCommand::Received(key));
        assert_eq!((at(&mut sessions, 1_000), sessions.wheel.len()), (vec![], 0));
    }

    #[test]
    fn a_closed_session_has_no_events() {
        let mut sessions = SessionTimers::new(Tick(0));
        let Some(SessionEvent::Opened(_, key)) = sessions.handle(Tick(0), SessionCommand::Open("it")) else {
            panic!("not opened")
        };
        sessions.handle(Tick(10), SessionCommand::Close(key));
        assert_eq!((at(&mut sessions, 1_000), sessions.wheel.len()), (vec![], 0));
    }
}
