//! Commands whose engine does not answer at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use encke_core::close::CloseReason;
use encke_core::dialect::json::Json;
use encke_core::dialect::{DialectName, Texts};
use encke_core::message::CompactJson;
use encke_core::session::{ConnectionKind, Delivery, Heartbeat, LifecycleEvent, Phase};
use futures_util::FutureExt;
use parking_lot::Mutex;

use super::waiting::MOST_IN_FLIGHT;
use super::{Attachment, Commands, Context};
use crate::admission::Holder;
use crate::auth::Identity;
use crate::channel::{ChannelName, HistoryPart, Hold, PublishId, Published, TooManyChannels};
use crate::clock::Clock;
use crate::config::Settings;
use crate::context;
use crate::engine::{Answer, EngineError, History, LogEngine, MemoryEngine, Presence};
use crate::entropy::Entropy;
use crate::executor::NoTasks;
use crate::session::{AttachRequest, Attached, Backlog, EventSink, SessionId, SessionRef};
use crate::timeouts::Timeouts;

/// The memory engine, which keeps its answers to itself until it is told to give them.
#[derive(Debug)]
struct SlowEngine {
    memory: MemoryEngine<SessionRef>,
    answers: Arc<AtomicBool>,
    /// What becomes of a publish.
    refusal: Arc<Mutex<Option<EngineError>>>,
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

impl LogEngine<SessionRef> for SlowEngine {
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        data: &CompactJson<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        self.later(match *self.refusal.lock() {
            Some(error) => Answer::Ready(Err(error)),
            None => self.memory.append(channel, maker, data, id),
        })
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        self.later(self.memory.read(channel, part, limit))
    }

    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<SessionRef>, EngineError>> {
        self.later(self.memory.follow(channel, maker))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        self.later(self.memory.presence(channel, cursor, limit))
    }
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
    refusal: Arc<Mutex<Option<EngineError>>>,
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
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.slots());
        let entropy = Entropy::system();
        let answers = Arc::new(AtomicBool::new(false));
        let refusal = Arc::default();
        let (slow, refuses) = (Arc::clone(&answers), Arc::clone(&refusal));
        let engine = |memory| -> Arc<dyn LogEngine<_>> {
            Arc::new(SlowEngine { memory, answers: slow, refusal: refuses })
        };
        let context =
            context::client_on(&config, timeouts, entropy, Arc::new(NoTasks), Box::new(NoEvents), engine);
        let context = Arc::new(context);
        let attachment = Attachment::new(attach(&context, None), Arc::clone(&context));
        let commands = Commands::new();
        let written = Written::default();
        Self { context, attachment, commands, backlog: Backlog::default(), written, answers, refusal }
    }

    fn receive(&mut self, text: &str) {
        let Self { commands, attachment, backlog, written, .. } = self;
        commands.received(text, attachment.speaker(), backlog, &mut Json::default(), written);
    }

    fn publish(&mut self, id: usize) {
        self.receive(&format!(r#"{{"id":{id},"publish":{{"channel":"a","data":{id}}}}}"#));
    }

    /// The engine answers. Returns what is written until nothing waits.
    fn answer_all(&mut self) -> Vec<String> {
        self.answers.store(true, Ordering::Relaxed);
        while let Some(waiting) = self.poll() {
            assert!(waiting.is_ready(), "the engine has answered");
        }
        self.answers.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.written.0)
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
    let other = attach(&world.context, Some(token.to_string()));
    assert!(other.recovered);
    world.answers.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    assert_eq!(world.attachment.session.subscriptions().len(), 0);
    let reply = world.written.0.pop().expect("a reply");
    assert!(reply.contains(r#""code":"limit""#), "{reply}");
    assert_eq!(world.context.logs.channels.len(), 0, "nothing holds the channel");
}

#[test]
fn many_publishes_are_under_way_at_once_and_answered_in_order() {
    let mut world = World::new();
    for id in 1..MOST_IN_FLIGHT {
        world.publish(id);
        assert!(world.commands.have_room(), "after {id}");
    }
    world.publish(MOST_IN_FLIGHT);
    assert!(!world.commands.have_room(), "nothing more is read");
    assert_eq!(world.context.logs.channels.get("a").expect("a log").last_offset(), MOST_IN_FLIGHT as u64);
    let replies = world.answer_all();
    assert_eq!(replies.len(), MOST_IN_FLIGHT);
    for (reply, id) in replies.iter().zip(1..) {
        assert!(reply.starts_with(&format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{id},"#)), "{reply}");
    }
    assert!(world.commands.have_room());
}

#[test]
fn commands_of_another_kind_wait_for_those_before_them() {
    let mut world = World::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    world.receive(r#"{"id":2,"subscribe":{"channel":"b"}}"#);
    assert!(world.commands.have_room());
    world.receive(r#"{"id":3,"unsubscribe":{"channel":"a"}}"#);
    assert!(!world.commands.have_room(), "the third waits, so nothing more is read");
    // What is in the same text, or was read before, waits as well.
    world.publish(4);
    world.receive(r#"{"id":5,"subscribe":{}}"#);
    let ids: Vec<String> = world.answer_all().iter().map(|reply| reply[10..16].to_owned()).collect();
    assert_eq!(ids, [r#""id":1"#, r#""id":2"#, r#""id":3"#, r#""id":4"#, r#""id":5"#]);
    let followed = world.attachment.session.subscriptions();
    assert_eq!(followed.iter().map(|(channel, _)| channel.name().as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn an_acknowledgement_is_heard_at_once_and_answered_in_its_turn() {
    let mut world = World::new();
    world.publish(1);
    world.receive(r#"{"id":2,"ack":{"seq":0}}"#);
    assert!(world.written.0.is_empty());
    let replies = world.answer_all();
    assert!(replies[0].starts_with(r#"{"reply":{"id":1,"#), "{replies:?}");
    assert_eq!(replies[1], r#"{"reply":{"id":2,"ok":{}}}"#);
}

#[test]
fn a_client_that_ends_its_session_has_its_replies_first() {
    let mut world = World::new();
    world.publish(1);
    world.receive(r#"{"id":2,"close":{}}"#);
    assert!(world.written.0.is_empty());
    assert!(matches!(world.attachment.session.phase(), Phase::Attached(_)));
    let replies = world.answer_all();
    assert!(replies[0].starts_with(r#"{"reply":{"id":1,"#), "{replies:?}");
    assert_eq!(replies[1], r#"{"reply":{"id":2,"ok":{}}}"#);
    assert_eq!(world.attachment.session.phase(), Phase::Closed(CloseReason::Client));
}

#[test]
fn what_an_engine_refuses_is_told() {
    let mut world = World::new();
    for (error, code) in [
        (EngineError::Unavailable, "unavailable"),
        (EngineError::OutcomeUnknown, "outcome_unknown"),
        (EngineError::Overloaded, "overloaded"),
        (EngineError::TooManyChannels(TooManyChannels::Here { limit: 1 }), "limit"),
    ] {
        *world.refusal.lock() = Some(error);
        world.publish(1);
        let replies = world.answer_all();
        let expected = format!(r#"{{"reply":{{"id":1,"error":{{"code":"{code}","message":"{error}"}}}}}}"#);
        assert_eq!(replies, [expected]);
    }
}
