//! Publish to a channel that all connections subscribe to, cut them all meanwhile if asked to, and count.

mod course;
mod ledger;
mod publisher;
mod tally;

use std::cell::{Cell, OnceCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use self::course::Course;
use self::ledger::Ledger;
use self::publisher::{Publisher, Work};
use self::tally::Tally;
use super::answering::Answering;
use super::connects::Connects;
use super::{Opened, Pace, Run, Scenario, Setup, open_all};
use crate::args::{self, Load, PublishBy};
use crate::client::{Connection, Event, Ticket};
use crate::counts::Counter;
use crate::failure::Failure;
use crate::heard::{Heard, Reader};
use crate::histogram::Times;
use crate::progress::Bar;
use crate::report::{Group, seconds};

/// From when all are subscribed to the first message.
const LEAD: Duration = Duration::from_millis(100);
/// How often to look whether it is over.
const LOOK: Duration = Duration::from_millis(10);
/// What comes twice comes late: how long to listen on after everything has arrived.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Fanout {
    options: args::Fanout,
    reader: Reader,
    /// Set when everyone is subscribed.
    course: OnceCell<Course>,
    /// When all connections were cut.
    cut: watch::Sender<Option<Instant>>,
    connected: Counter,
    /// Subscriptions that were answered, or will not be any more.
    settled: Counter,
    subscribed: Counter,
    /// The messages that the server said it has published.
    published: Counter,
    is_published: Cell<bool>,
    tally: Tally,
    dropped: Counter,
    resumed: Counter,
    not_recovered: Counter,
    /// Cut subscribers that could not connect any more.
    gone: Counter,
    /// From the cut to the last hello that said `recovered`.
    took: Cell<Option<Duration>>,
    connects: Connects,
    resume: Times,
    answering: Answering,
}

/// What one subscriber knows, over all its connections.
#[derive(Debug)]
struct Subscriber {
    ticket: Ticket,
    ledger: Ledger,
    unacked: u32,
}

impl Scenario for Fanout {
    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.publish(setup).await })
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "subscribed", done: self.subscribed.get(), of: setup.load.connections.into() },
            Bar { label: "received", done: self.tally.received(), of: self.expected() },
            Bar { label: "resumed", done: self.resumed.get(), of: self.dropped.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> Group {
        Group::default()
            .with("connected", self.connected.get())
            .with("subscribed", self.subscribed.get())
            .with("errors", setup.failures.total())
            .with("published", self.published.get())
            .and(self.tally.outcome(self.expected(), self.course.get()))
            .with("dropped", self.dropped.get())
            .with("resumed", self.resumed.get())
            .with("not_recovered", self.not_recovered.get())
            .with("seconds", self.took.get().map(seconds))
            .with("unexpected_closes", self.answering.unexpected_closes.get())
            .with("pings", self.answering.pings.get())
            .and(self.connects.outcome())
            .with("resume_ms", self.resume.summary())
            .and(self.answering.ends.outcome())
    }
}

impl Fanout {
    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        let mut subscribers = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            subscribers.spawn_local(self.clone().follow(setup.clone(), opened, self.cut.subscribe()));
        })
        .await;
        while self.settled.get() < self.connected.get() {
            sleep(LOOK).await;
        }
        if self.subscribed.get() == 0 {
            return;
        }
        let publisher = match Publisher::open(&self.options, &setup).await {
            Ok(publisher) => publisher,
            Err(failure) => return setup.failures.record(&failure),
        };
        let course = self.course.get_or_init(|| self.start_course());
        let publish = async {
            publisher.run(self.work(course, &setup)).await;
            self.is_published.set(true);
        };
        let cut = async {
            if let Some(after) = self.options.cut_after {
                sleep_until(course.start() + after).await;
                self.cut.send_replace(Some(Instant::now()));
            }
        };
        tokio::select! {
            () = self.wait_for_end(course) => {}
            ((), ()) = async { tokio::join!(publish, cut) } => self.wait_for_end(course).await,
        }
    }

    pub(crate) fn new(options: args::Fanout) -> Self {
        Self {
            reader: Reader::new(&options.channel),
            options,
            course: OnceCell::new(),
            cut: watch::Sender::new(None),
            connected: Counter::default(),
            settled: Counter::default(),
            subscribed: Counter::default(),
            published: Counter::default(),
            is_published: Cell::new(false),
            tally: Tally::default(),
            dropped: Counter::default(),
            resumed: Counter::default(),
            not_recovered: Counter::default(),
            gone: Counter::default(),
            took: Cell::new(None),
            connects: Connects::default(),
            resume: Times::default(),
            answering: Answering::default(),
        }
    }

    /// The options, for the beginning of the report.
    pub(crate) fn asked_for(&self, header: Group, load: &Load) -> Group {
        let options = &self.options;
        header
            .with("channel", options.channel.as_str())
            .with("messages", u64::from(options.messages))
            .with("publish_rate", options.publish_rate)
            .with("size", u64::from(options.size))
            .with(
                "publisher",
                match options.publisher {
                    PublishBy::Ws => "ws",
                    PublishBy::Admin => "admin",
                },
            )
            .with("cut_after_seconds", options.cut_after.map(seconds))
            .with("ack_every", u64::from(options.ack_every))
            .with("grace_seconds", seconds(options.grace))
            .with("connect_timeout_seconds", seconds(load.connect_timeout))
    }

    fn start_course(&self) -> Course {
        let args::Fanout { messages, publish_rate, size, .. } = self.options;
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

    /// Every subscriber should have every message, one that was refused too.
    fn expected(&self) -> u64 {
        self.subscribed.get() * u64::from(self.options.messages)
    }

    /// Until everything has arrived, or for long enough nothing has.
    async fn wait_for_end(&self, course: &Course) {
        let cut_at = self.options.cut_after.map_or(course.start(), |after| course.start() + after);
        let last_event = course.last_due().max(cut_at);
        let mut look = interval(LOOK);
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            let now = look.tick().await;
            let so_far = self.tally.arrivals() + self.published.get() + self.returned();
            if so_far != progress {
                (progress, since) = (so_far, now);
            }
            if now >= last_event && self.is_complete() {
                return sleep(SETTLE).await;
            }
            if now >= since.max(last_event) + self.options.grace {
                return;
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.is_published.get()
            && self.tally.received() >= self.expected()
            && self.returned() == self.dropped.get()
    }

    /// How many of the cut ones are back, or have failed to be.
    fn returned(&self) -> u64 {
        self.resumed.get() + self.not_recovered.get() + self.gone.get()
    }
}

/// The life of one subscriber.
impl Fanout {
    async fn follow(
        self: Rc<Self>,
        setup: Rc<Setup>,
        opened: Opened,
        mut cut: watch::Receiver<Option<Instant>>,
    ) {
        let Opened { mut connection, greeting, .. } = opened;
        let subscribed = self.subscribe(&mut connection, &setup).await;
        self.settled.increment();
        if !subscribed {
            return;
        }
        self.subscribed.increment();
        let mut subscriber = Subscriber { ticket: greeting.ticket, ledger: Ledger::default(), unacked: 0 };
        // The sender lives as long as the scenario does.
        tokio::select! {
            biased;
            _ = cut.changed() => {}
            () = self.listen(connection, &mut subscriber) => return,
        }
        self.dropped.increment();
        let cut_at = cut.borrow().unwrap_or_else(Instant::now);
        // Boxed, for a task is as large as what it may hold at once, for all its life.
        match Box::pin(self.come_back(&mut subscriber, cut_at, &setup)).await {
            Some(connection) => self.listen(connection, &mut subscriber).await,
            None => self.gone.increment(),
        }
    }

    /// Whether it was done. A failure is recorded.
    async fn subscribe(&self, connection: &mut Connection, setup: &Setup) -> bool {
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
        });
        let reply = async { reply.await.unwrap_or_else(|end| Err(format!("closed_{}", end.code()))) };
        let result = timeout(setup.load.connect_timeout, reply).await;
        let result = result.unwrap_or_else(|_| Err("timeout".to_owned()));
        result.map_err(|code| setup.failures.record(&Failure::Subscribe(code))).is_ok()
    }

    /// Comes back to the session, or else subscribes in the new one.
    async fn come_back(
        &self,
        subscriber: &mut Subscriber,
        cut_at: Instant,
        setup: &Setup,
    ) -> Option<Connection> {
        let opened = setup.dialer.open(Some(&subscriber.ticket)).await;
        let (mut connection, greeting) = opened.map_err(|failure| setup.failures.record(&failure)).ok()?;
        self.resume.record(cut_at.elapsed());
        if greeting.recovered {
            self.resumed.increment();
            self.took.set(self.took.get().max(Some(cut_at.elapsed())));
            return Some(connection);
        }
        setup.failures.record(&Failure::NotRecovered);
        subscriber.ticket = greeting.ticket;
        if !self.subscribe(&mut connection, setup).await {
            return None;
        }
        self.not_recovered.increment();
        Some(connection)
    }

    /// Returns when the server has ended the connection.
    async fn listen(&self, mut connection: Connection, subscriber: &mut Subscriber) {
        loop {
            let listened = connection.each(|event| {
                match event {
                    Event::Ping(_) => self.answering.pings.increment(),
                    Event::Text(text) => self.hear(text, subscriber),
                }
                let is_ack_due = self.options.ack_every > 0 && subscriber.unacked >= self.options.ack_every;
                if is_ack_due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if let Err(end) = listened.await {
                return self.answering.record_close(end);
            }
            subscriber.unacked = 0;
            connection.send(&format!(r#"{{"ack":{{"seq":{}}}}}"#, subscriber.ticket.seq)).await;
        }
    }

    fn hear(&self, text: &str, subscriber: &mut Subscriber) {
        let seq = match self.reader.read(text) {
            Heard::Message { seq, data } => {
                let course = self.course.get();
                match course.and_then(|course| Some((course, course.number_of(data)?))) {
                    Some((course, number)) => {
                        self.tally.message(course, number, subscriber.ledger.take(number));
                    }
                    None => self.tally.foreign(),
                }
                seq
            }
            Heard::Gap { seq, messages } => {
                self.tally.gap(messages);
                seq
            }
            Heard::Elsewhere { seq } => seq,
            Heard::Reply(_) | Heard::Other => return,
        };
        subscriber.ticket.seq = seq;
        subscriber.unacked += 1;
    }
}
