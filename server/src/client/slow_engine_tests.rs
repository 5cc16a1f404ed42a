//! Commands whose engine does not answer at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use encke_core::dialect::json::Json;
use encke_core::dialect::{DialectName, Texts};
use encke_core::message::CompactJson;
use encke_core::session::{ConnectionKind, Delivery, Heartbeat, LifecycleEvent};
use futures_util::FutureExt;

use super::{Attachment, Commands, Context};
use crate::admission::Holder;
use crate::auth::Identity;
use crate::channel::{ChannelName, Hold, NotPublished, Published, TooManyChannels};
use crate::clock::Clock;
use crate::config::Settings;
use crate::context;
use crate::engine::{Answer, History, LogEngine, MemoryEngine};
use crate::entropy::Entropy;
use crate::executor::{Executor, Task};
use crate::session::{AttachRequest, Attached, Backlog, EventSink, SessionCell, SessionId};
use crate::timeouts::Timeouts;

/// The memory engine, which keeps its answers to itself until it is told to give them.
#[derive(Debug)]
struct SlowEngine {
    memory: MemoryEngine<SessionCell>,
    answers: Arc<AtomicBool>,
}

impl SlowEngine {
    fn later<T: Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let answers = Arc::clone(&self.answers);
        let mut answer = Some(answer);
        let ready = std::future::poll_fn(move |_| match answer.take() {
            Some(Answer::Ready(ready)) if answers.load(Ordering::Relaxed) => Poll::Ready(ready),
            waiting => {
                answer = waiting;
                Poll::Pending
            }
        });
        Answer::Later(ready.boxed())
    }
}

impl LogEngine<SessionCell> for SlowEngine {
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        data: &CompactJson<'_>,
    ) -> Answer<Result<Published, NotPublished>> {
        self.later(self.memory.append(channel, maker, data))
    }

    fn read(&self, channel: &ChannelName, since: u64, limit: usize) -> Answer<Option<History>> {
        self.later(self.memory.read(channel, since, limit))
    }

    fn follow(
        &self,
        channel: &ChannelName,
        maker: &Holder,
    ) -> Answer<Result<Hold<SessionCell>, TooManyChannels>> {
        self.later(self.memory.follow(channel, maker))
    }
}

#[derive(Debug)]
struct NoTasks;

impl Executor for NoTasks {
    fn spawn(&self, _: Task) {}
}

struct NoEvents;

impl EventSink for NoEvents {
    fn session_event(&self, _: SessionId, _: Option<&str>, _: LifecycleEvent) {}
}

/// One connection of a client, and the engine behind it.
struct World {
    context: Arc<Context>,
    attachment: Attachment,
    commands: Commands<Json>,
    backlog: Backlog,
    written: Written,
    answers: Arc<AtomicBool>,
}

#[derive(Default)]
struct Written(Vec<String>);

impl Texts for Written {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

impl World {
    fn new() -> Self {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO);
        let entropy = Entropy::system();
        let answers = Arc::new(AtomicBool::new(false));
        let slow = Arc::clone(&answers);
        let engine = |memory| -> Arc<dyn LogEngine<_>> { Arc::new(SlowEngine { memory, answers: slow }) };
        let context =
            context::client_on(&config, timeouts, entropy, Arc::new(NoTasks), Box::new(NoEvents), engine);
        let context = Arc::new(context);
        let attachment = Attachment::new(attach(&context, None), Arc::clone(&context));
        let commands = Commands::new();
        let written = Written::default();
        Self { context, attachment, commands, backlog: Backlog::default(), written, answers }
    }

    fn receive(&mut self, text: &str) {
        let Self { commands, attachment, backlog, written, .. } = self;
        commands.received(text, attachment.speaker(), backlog, &mut Json::default(), written);
    }

    fn poll(&mut self) -> Option<Poll<()>> {
        let Self { commands, attachment, backlog, written, .. } = self;
        let mut task = TaskContext::from_waker(Waker::noop());
        commands.poll_waiting(&mut task, attachment.speaker(), backlog, &mut Json::default(), written)
    }
}

/// A connection's session: a new one, or the one of this resume token.
fn attach(context: &Context, resume: Option<String>) -> Attached {
    let request = AttachRequest {
        resume,
        seq: None,
        identity: Identity::ANONYMOUS,
        address: [127, 0, 0, 1].into(),
        kind: ConnectionKind::Stream(Heartbeat::Frame),
        dialect: DialectName::Json,
        delivery: Delivery::AtLeastOnce,
        may_open: true,
        only_resume: false,
    };
    let permit = context.permits.take([127, 0, 0, 1].into());
    context.sessions.attach(&request, permit, || false).expect("a session")
}

#[test]
fn a_reply_waits_for_the_engine() {
    let mut world = World::new();
    assert_eq!(world.poll(), None, "nothing waits");
    world.receive(r#"{"id":1,"publish":{"channel":"a","data":1}}"#);
    assert_eq!((world.poll(), world.written.0.len()), (Some(Poll::Pending), 0));
    world.answers.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    let reply = world.written.0.pop().expect("a reply");
    assert!(reply.starts_with(r#"{"reply":{"id":1,"ok":{"offset":1,"#), "{reply}");
    assert_eq!(world.poll(), None);
}

#[test]
fn a_subscription_begins_when_the_engine_has_answered() {
    let mut world = World::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    assert_eq!(world.attachment.session.subscriptions().len(), 0);
    world.answers.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    assert_eq!(world.attachment.session.subscriptions().len(), 1);
    assert!(world.backlog.more, "there may be something to read");
}

#[test]
fn a_session_that_was_taken_over_meanwhile_subscribes_to_nothing() {
    let mut world = World::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    let token = world.attachment.session.resume_token().expose();
    let other = attach(&world.context, Some(token));
    assert!(other.recovered);
    world.answers.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    assert_eq!(world.attachment.session.subscriptions().len(), 0);
    let reply = world.written.0.pop().expect("a reply");
    assert!(reply.contains(r#""code":"limit""#), "{reply}");
    assert_eq!(world.context.logs.channels.len(), 0, "nothing holds the channel");
}
