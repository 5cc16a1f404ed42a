//! Commands whose engine does not answer at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};

use encke_core::close::CloseReason;
use encke_core::dialect::Texts;
use encke_core::dialect::json::Json;
use encke_core::session::Phase;

use super::test_context::{attach, on_slow_engine};
use super::waiting::MOST_IN_FLIGHT;
use super::{Attachment, Commands, Context};
use crate::channel::TooManyChannels;
use crate::engine::EngineError;
use crate::engine::slow::Held;
use crate::session::Backlog;

/// One connection of a client, and the engine behind it.
struct World {
    context: Arc<Context>,
    attachment: Attachment,
    commands: Commands<Json>,
    backlog: Backlog,
    written: Written,
    engine: Arc<Held>,
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
        let (context, engine) = on_slow_engine();
        let context = Arc::new(context);
        let attachment = Attachment::new(attach(&context, None), Arc::clone(&context));
        let commands = Commands::new();
        let written = Written::default();
        Self { context, attachment, commands, backlog: Backlog::default(), written, engine }
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
        self.engine.answers.store(true, Ordering::Relaxed);
        while let Some(waiting) = self.poll() {
            assert!(waiting.is_ready(), "the engine has answered");
        }
        self.engine.answers.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.written.0)
    }

    fn poll(&mut self) -> Option<Poll<()>> {
        let Self { commands, attachment, backlog, written, .. } = self;
        let mut task = TaskContext::from_waker(Waker::noop());
        commands.poll_waiting(&mut task, attachment.speaker(), backlog, &mut Json::default(), written)
    }
}

#[test]
fn a_reply_waits_for_the_engine() {
    let mut world = World::new();
    assert_eq!(world.poll(), None, "nothing waits");
    world.receive(r#"{"id":1,"publish":{"channel":"a","data":1}}"#);
    assert_eq!((world.poll(), world.written.0.len()), (Some(Poll::Pending), 0));
    world.engine.answers.store(true, Ordering::Relaxed);
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
    world.engine.answers.store(true, Ordering::Relaxed);
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
    world.engine.answers.store(true, Ordering::Relaxed);
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
        *world.engine.refusal.lock() = Some(error);
        world.publish(1);
        let replies = world.answer_all();
        let expected = format!(r#"{{"reply":{{"id":1,"error":{{"code":"{code}","message":"{error}"}}}}}}"#);
        assert_eq!(replies, [expected]);
    }
}
