//! A bare thread that owns the timers of sessions: it takes commands over a channel, and sleeps until the wheel has something to do.
//!
//! ```sh
//! cargo run -p encke-wheel --example thread
//! ```
//!
//! A session is pinged after 40 ms of silence, and again and again, until it is given up after 190 ms of silence. `Sessions` holds all that
//! is decided, and knows no clock: its test is a timetable. The thread around it has the clock, the channel and the sleep.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use encke_wheel::{Lent, Owners, Tick, TimerKey, Work};

/// The timers of a session.
const PING: usize = 0;
const EXPIRY: usize = 1;

/// In ticks, which are milliseconds here.
const PING_AFTER: u64 = 40;
const EXPIRY_AFTER: u64 = 190;

/// How many timers at most are looked after before the commands that came in the meantime.
const BUDGET: u64 = 256;

#[derive(Debug)]
enum Command {
    Open(&'static str),
    Heard(TimerKey),
    Close(TimerKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Opened(&'static str, TimerKey),
    Ping(&'static str, TimerKey),
    Expired(&'static str),
}

/// Each session is an owner with two timers: nobody looks it up when one of them fires.
struct Sessions {
    wheel: Owners<&'static str, 2>,
}

impl Sessions {
    fn new(now: Tick) -> Self {
        Sessions { wheel: Owners::new(now) }
    }

    fn handle(&mut self, now: Tick, command: Command) -> Option<Event> {
        match command {
            Command::Open(name) => {
                let key = self.wheel.insert(name);
                self.put_off(now, key);
                return Some(Event::Opened(name, key));
            }
            // Both may come after the session has expired. Its key finds nothing then, even if another session has its memory.
            Command::Heard(key) => self.put_off(now, key),
            Command::Close(key) => drop(self.wheel.remove(key)),
        }
        None
    }

    /// From `now`, not from where the wheel stands: it may be behind.
    fn put_off(&mut self, now: Tick, key: TimerKey) {
        if let Some(mut session) = self.wheel.get_mut(key) {
            session.arm(PING, now.saturating_add(PING_AFTER));
            session.arm(EXPIRY, now.saturating_add(EXPIRY_AFTER));
        }
    }

    /// The next event that is due by now. `None` if there is none, or the budget is spent.
    fn due(&mut self, now: Tick, work: &mut Work) -> Option<Event> {
        // `which` is not armed any more, so that PING has to be armed anew. The session is at hand: it is lent.
        let Lent::Due(mut due) = self.wheel.expire_next(now, work) else { return None };
        let (name, key) = (*due.owner.value(), due.owner.key());
        if due.which == PING {
            // From its deadline, not from now: a thread that slept too long does not shift the rhythm.
            due.owner.arm(PING, due.deadline.saturating_add(PING_AFTER));
            return Some(Event::Ping(name, key));
        }
        // With the owner goes its other timer.
        self.wheel.remove(key);
        Some(Event::Expired(name))
    }
}

/// Runs until nobody is left to command it. Says how many sessions there still are.
fn run(commands: &Receiver<Command>, events: &Sender<Event>) -> usize {
    let start = Instant::now();
    // Rounded down, so that nothing comes early.
    let now = || Tick(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    let mut sessions = Sessions::new(now());
    // Nobody may be interested in events any more; commands are carried out all the same.
    let report = |event: Option<Event>| event.map(|event| events.send(event).is_ok());
    loop {
        let mut work = Work::new(BUDGET);
        while report(sessions.due(now(), &mut work)).is_some() {}

        // While timers are due, which the budget did not allow, this is where the wheel stands: then it does not sleep at all.
        let command = match sessions.wheel.next_wakeup(Tick::MAX) {
            Some(wakeup) => {
                // The wake-up may be for nothing, where a timer was before it was put off. So one looks again, and sleeps on.
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
    let command = |command| commands.send(command).expect("the thread ends after this one");
    for name in ["silent", "lively", "leaving"] {
        command(Command::Open(name));
    }
    let mut pings = 0;
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).expect("the silent one expires");
        println!("{event:?}");
        match event {
            Event::Opened("leaving", key) => command(Command::Close(key)),
            Event::Ping("lively", key) => command(Command::Heard(key)),
            Event::Ping("silent", _) => pings += 1,
            Event::Expired("silent") => break,
            Event::Opened(..) | Event::Ping(..) | Event::Expired(_) => {}
        }
    }
    // After 40, 80, 120 and 160 ms, however late the thread woke.
    assert_eq!(pings, 4);
    drop(commands);
    let left = wheel_thread.join().expect("it does not panic");
    println!("{left} left");
    assert!(left <= 1, "the silent one expired, and one left");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is due at a tick.
    fn at(sessions: &mut Sessions, now: u64) -> Vec<Event> {
        let mut work = Work::unlimited();
        std::iter::from_fn(|| sessions.due(Tick(now), &mut work)).collect()
    }

    #[test]
    fn a_session_is_pinged_and_given_up() {
        let mut sessions = Sessions::new(Tick(0));
        let Some(Event::Opened("it", key)) = sessions.handle(Tick(0), Command::Open("it")) else {
            panic!("it was not opened")
        };
        assert_eq!(at(&mut sessions, 39), []);
        assert_eq!(at(&mut sessions, 40), [Event::Ping("it", key)]);
        sessions.handle(Tick(50), Command::Heard(key));
        assert_eq!(at(&mut sessions, 89), []);
        assert_eq!(at(&mut sessions, 90), [Event::Ping("it", key)]);
        assert_eq!(at(&mut sessions, 239), [Event::Ping("it", key); 3]);
        assert_eq!(at(&mut sessions, 240), [Event::Expired("it")]);
        sessions.handle(Tick(241), Command::Heard(key));
        assert_eq!((at(&mut sessions, 1_000), sessions.wheel.len()), (vec![], 0));
    }

    #[test]
    fn what_is_closed_is_silent() {
        let mut sessions = Sessions::new(Tick(0));
        let Some(Event::Opened(_, key)) = sessions.handle(Tick(0), Command::Open("it")) else {
            panic!("it was not opened")
        };
        sessions.handle(Tick(10), Command::Close(key));
        assert_eq!((at(&mut sessions, 1_000), sessions.wheel.len()), (vec![], 0));
    }
}
