//! Everyone who subscribes, and all that they have had.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, interval, sleep, timeout};

use super::course::{Course, Recognized};
use super::publisher::{Publisher, Work};
use super::round::Round;
use super::subscriber::Subscriber;
use super::tally::Tally;
use crate::args;
use crate::client::{Connection, Event, Greeting};
use crate::failure::Failure;
use crate::heard::{Heard, Reader};
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::Group;
use crate::scenario::answering::Answering;
use crate::scenario::connects::Connects;
use crate::scenario::{Attempt, Opened, Pace, Setup, open_all};
use crate::websocket::End;

/// From when all are subscribed to the first message.
const LEAD: Duration = Duration::from_millis(100);
/// How often to look whether it is over.
const LOOK: Duration = Duration::from_millis(10);
/// What comes twice comes late: how long to listen on after everything has arrived.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) options: args::Audience,
    reader: Reader,
    round: RefCell<Rc<Round>>,
    pub(crate) connected: Counter,
    pub(crate) subscribed: Counter,
    /// The messages that the server said it has published.
    published: Counter,
    tally: Tally,
    connects: Connects,
    pub(crate) answering: Answering,
}

/// What else happens while messages are published.
pub(crate) struct Others<'a> {
    /// When the last of it is due.
    pub(crate) last_due: Instant,
    /// Changes while it goes on.
    pub(crate) progress: &'a dyn Fn() -> u64,
    pub(crate) is_over: &'a dyn Fn() -> bool,
}

impl Audience {
    pub(crate) fn new(options: args::Audience) -> Self {
        Self {
            reader: Reader::new(&options.channel),
            options,
            round: RefCell::default(),
            connected: Counter::default(),
            subscribed: Counter::default(),
            published: Counter::default(),
            tally: Tally::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    pub(crate) fn register(&self, recorder: &Recorder) {
        recorder.counter("subscribed", &self.subscribed);
        recorder.counter("published", &self.published);
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        self.tally.register(recorder);
        self.connects.register(recorder);
    }

    /// Connects everyone, and waits until those whom `on_open` makes subscribe have done so.
    pub(crate) async fn assemble(&self, setup: &Rc<Setup>, round: &Rc<Round>, on_open: impl FnMut(Opened)) {
        self.assemble_with(setup, round, |attempt| attempt, on_open).await;
    }

    /// The same, where not everyone connects like the others.
    pub(crate) async fn assemble_with(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<Round>,
        adapt: impl Fn(Attempt) -> Attempt,
        mut on_open: impl FnMut(Opened),
    ) {
        self.round.replace(Rc::clone(round));
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("subscribe");
        open_all(setup, pace.attempts(&setup.load).map(adapt), |opened| {
            self.connected.increment();
            round.connected.increment();
            self.connects.record(&opened);
            on_open(opened);
        })
        .await;
        while round.settled.get() < round.connected.get() {
            sleep(LOOK).await;
        }
    }

    /// Subscribes a connection that has just been opened. A failure is recorded.
    pub(crate) async fn join(
        &self,
        setup: &Setup,
        round: &Round,
        connection: &mut Connection,
        counts: bool,
    ) -> bool {
        let subscribed = self.subscribe(connection, setup).await;
        if subscribed {
            self.subscribed.increment();
            if counts {
                round.counted.increment();
            }
        }
        round.settled.increment();
        subscribed
    }

    /// Whether it was done. A failure is recorded.
    pub(crate) async fn subscribe(&self, connection: &mut Connection, setup: &Setup) -> bool {
        let channel = Value::from(self.options.channel.as_str());
        connection.send(&format!(r#"{{"id":1,"subscribe":{{"channel":{channel}}}}}"#)).await;
        let reply = connection.each(|event| match event {
            Event::Ping(_) => {
                self.answering.pings.increment();
                ControlFlow::Continue(())
            }
            Event::Text(text) => match self.reader.read(text) {
                Heard::Reply(error) => {
                    ControlFlow::Break(error.map_or(Ok(()), |code| Err(code.into_owned())))
                }
                _ => ControlFlow::Continue(()),
            },
            Event::Pong(_) | Event::Id(_) => ControlFlow::Continue(()),
        });
        let reply = async { reply.await.unwrap_or_else(|end| Err(end.kind())) };
        let result = timeout(setup.load.server.connect_timeout, reply).await;
        let result = result.unwrap_or_else(|_| Err("timeout".to_owned()));
        result.map_err(|code| setup.failures.record(&Failure::Subscribe(code))).is_ok()
    }

    /// Publishes a course, and returns when everything has arrived, or for long enough nothing has. `others` runs
    /// beside it, and says what it is when the course is known.
    pub(crate) async fn perform<'a, F: Future<Output = ()>>(
        &self,
        setup: &Rc<Setup>,
        round: &Round,
        others: impl FnOnce(&Round) -> (Others<'a>, F),
    ) {
        if round.counted.get() == 0 {
            return;
        }
        let publisher = match Publisher::open(&self.options, setup).await {
            Ok(publisher) => publisher,
            Err(failure) => return setup.failures.record(&failure),
        };
        setup.recorder.phase("publish");
        let course = round.course.get_or_init(|| self.start_course());
        let (others, beside) = others(round);
        let publish = async {
            publisher.run(self.work(course, setup)).await;
            round.is_published.set(true);
        };
        tokio::select! {
            () = self.wait_for_end(round, course, &others) => {}
            ((), ()) = async { tokio::join!(publish, beside) } => {
                self.wait_for_end(round, course, &others).await;
            }
        }
        // The next round must not count this one again.
        self.round.replace(Rc::default());
        self.tally.add(round);
    }

    fn start_course(&self) -> Course {
        let args::Audience { messages, publish_rate, size, .. } = self.options;
        Course::new(Instant::now() + LEAD, messages, publish_rate, size as usize)
    }

    fn work<'a>(&'a self, course: &'a Course, setup: &'a Setup) -> Work<'a> {
        Work {
            channel: &self.options.channel,
            course,
            reader: &self.reader,
            published: &self.published,
            failures: &setup.failures,
        }
    }

    /// Until everything has arrived, or for long enough nothing has.
    async fn wait_for_end(&self, round: &Round, course: &Course, others: &Others<'_>) {
        let last_due = course.last_due().max(others.last_due);
        let mut look = interval(LOOK);
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            let now = look.tick().await;
            let so_far = self.tally.arrivals() + self.published.get() + (others.progress)();
            if so_far != progress {
                (progress, since) = (so_far, now);
            }
            let has_all = round.is_published.get() && round.received.get() >= round.expected();
            if now >= last_due && has_all && (others.is_over)() {
                return sleep(SETTLE).await;
            }
            if now >= since.max(last_due) + self.options.grace {
                return;
            }
        }
    }

    /// Returns when the server has ended the connection. May be dropped and called again.
    pub(crate) async fn listen(
        &self,
        round: &Round,
        connection: &mut Connection,
        subscriber: &mut Subscriber,
    ) -> End {
        loop {
            let listened = connection.each(|event| {
                match event {
                    Event::Ping(_) => self.answering.pings.increment(),
                    Event::Text(text) => self.hear(round, text, subscriber),
                    Event::Pong(_) | Event::Id(_) => {}
                }
                let is_ack_due = self.options.ack_every > 0 && subscriber.unacked >= self.options.ack_every;
                if is_ack_due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if let Err(end) = listened.await {
                return end;
            }
            subscriber.unacked = 0;
            connection.send(&format!(r#"{{"ack":{{"seq":{}}}}}"#, subscriber.ticket.seq)).await;
        }
    }

    pub(crate) fn hear(&self, round: &Round, text: &str, subscriber: &mut Subscriber) {
        let (seq, follows) = match self.reader.read(text) {
            Heard::Message { seq, data } => {
                if subscriber.counts {
                    self.take(round, data, subscriber);
                }
                (seq, subscriber.numbering.message(seq))
            }
            Heard::Gap { seq, messages } => {
                if subscriber.counts {
                    self.tally.gap(messages);
                }
                (seq, subscriber.numbering.gap(seq))
            }
            // A message or a gap: what holds for both.
            Heard::Elsewhere { seq } => (seq, subscriber.numbering.gap(seq)),
            Heard::Reply(_) | Heard::Other => return,
        };
        if !follows {
            self.tally.misnumbered();
        }
        subscriber.ticket.seq = seq;
        subscriber.unacked += 1;
    }

    fn take(&self, round: &Round, data: &str, subscriber: &mut Subscriber) {
        let Some(course) = round.course.get() else { return self.tally.foreign() };
        match course.recognize(data) {
            Recognized::Ours(number) => {
                self.tally.message(round, course, number, subscriber.ledger.take(number));
            }
            Recognized::Corrupted => self.tally.corrupted(),
            Recognized::Foreign => self.tally.foreign(),
        }
    }

    /// The hello of a resumed session is to say where the stream goes on, which is what it was asked for.
    pub(crate) fn check_greeting(&self, subscriber: &Subscriber, greeting: &Greeting) {
        if greeting.ticket.seq != subscriber.ticket.seq {
            self.tally.misnumbered();
        }
    }

    pub(crate) fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let expected = self.tally.expected(&self.round.borrow());
        vec![
            Bar { label: "subscribed", done: self.subscribed.get(), of: setup.load.connections.into() },
            Bar { label: "received", done: self.tally.received(), of: expected },
        ]
    }

    /// The connections, and what they have had.
    pub(crate) fn outcome(&self, setup: &Setup) -> Group {
        Group::default()
            .with("connected", self.connected.get())
            .with("subscribed", self.subscribed.get())
            .with("errors", setup.failures.total())
            .with("published", self.published.get())
            .and(self.tally.outcome(&self.round.borrow()))
    }

    /// What can be said of the connections of any scenario.
    pub(crate) fn connections(&self) -> Group {
        Group::default()
            .with("unexpected_closes", self.answering.unexpected_closes.get())
            .with("pings", self.answering.pings.get())
            .and(self.connects.outcome())
            .and(self.answering.ends.outcome())
    }
}
