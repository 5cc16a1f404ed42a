//! Tests of commands on an engine that does not answer immediately.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};

use encke_broker::channel::TooManyChannels;
use encke_broker::engine::EngineError;
use encke_core::close::CloseReason;
use encke_core::dialect::TextSink;
use encke_core::dialect::json::Json;
use encke_core::session::Phase;
use serde_json::Value;

use super::pending::MAX_IN_FLIGHT;
use super::{CommandContext, CommandHandler, Commands};
use crate::client::slow_engine::SlowControl;
use crate::client::test_services::{attach, on_slow_engine};
use crate::client::{Attachment, Services};
use crate::session::Backlog;

/// One client connection, and the engine behind it.
struct SlowEngineWorld {
    services: Arc<Services>,
    attachment: Attachment,
    commands: Commands<Json>,
    backlog: Backlog,
    written: WrittenTexts,
    engine: Arc<SlowControl>,
}

#[derive(Default)]
struct WrittenTexts(Vec<String>);

impl TextSink for WrittenTexts {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

impl SlowEngineWorld {
    fn new() -> Self {
        let (services, engine) = on_slow_engine();
        let services = Arc::new(services);
        let attachment = Attachment::new(attach(&services, None), Arc::clone(&services));
        let commands = Commands::default();
        let written = WrittenTexts::default();
        Self { services, attachment, commands, backlog: Backlog::default(), written, engine }
    }

    fn receive(&mut self, text: &str) {
        let Self { commands, attachment, backlog, written, .. } = self;
        let (context, dialect) = (CommandContext::from(&*attachment), &mut Json::default());
        CommandHandler { context, commands, backlog, dialect, out: written }.handle_text(text);
    }

    fn publish(&mut self, id: usize) {
        self.receive(&format!(r#"{{"id":{id},"publish":{{"channel":"a","data":{id}}}}}"#));
    }

    /// Makes the engine answer, and returns everything that is written until no command is pending.
    fn answer_all(&mut self) -> Vec<String> {
        self.engine.is_open.store(true, Ordering::Relaxed);
        while let Some(poll) = self.poll() {
            assert!(poll.is_ready(), "the engine has answered");
        }
        self.engine.is_open.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.written.0)
    }

    fn poll(&mut self) -> Option<Poll<()>> {
        let Self { commands, attachment, backlog, written, .. } = self;
        let mut task = TaskContext::from_waker(Waker::noop());
        let (context, dialect) = (CommandContext::from(&*attachment), &mut Json::default());
        CommandHandler { context, commands, backlog, dialect, out: written }.poll_pending(&mut task)
    }
}

#[test]
fn replies_wait_for_the_engine() {
    let mut world = SlowEngineWorld::new();
    assert_eq!(world.poll(), None, "nothing is pending");
    world.receive(r#"{"id":1,"publish":{"channel":"a","data":1}}"#);
    assert_eq!((world.poll(), world.written.0.len()), (Some(Poll::Pending), 0));
    world.engine.is_open.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    let reply = world.written.0.pop().expect("a reply");
    assert!(reply.starts_with(r#"{"reply":{"id":1,"ok":{"offset":1,"#), "{reply}");
    assert_eq!(world.poll(), None);
}

#[test]
fn a_subscription_begins_when_the_engine_has_answered() {
    let mut world = SlowEngineWorld::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    assert_eq!(world.attachment.session.subscriptions().len(), 0);
    world.engine.is_open.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    assert_eq!(world.attachment.session.subscriptions().len(), 1);
    assert!(world.backlog.has_more, "there may be something to read");
}

#[test]
fn subscribe_fails_if_the_session_was_taken_over_meanwhile() {
    let mut world = SlowEngineWorld::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    let token = world.attachment.session.resume_token().expose();
    let other = attach(&world.services, Some(token.to_string()));
    assert!(other.recovered);
    world.engine.is_open.store(true, Ordering::Relaxed);
    assert_eq!(world.poll(), Some(Poll::Ready(())));
    assert_eq!(world.attachment.session.subscriptions().len(), 0);
    let reply = world.written.0.pop().expect("a reply");
    assert!(reply.contains(r#""code":"limit""#), "{reply}");
    assert_eq!(world.services.logs.channels.len(), 0, "nothing keeps the channel alive");
}

#[test]
fn publishes_run_concurrently_and_are_answered_in_order() {
    let mut world = SlowEngineWorld::new();
    for id in 1..MAX_IN_FLIGHT {
        world.publish(id);
        assert!(world.commands.has_room(), "after {id}");
    }
    world.publish(MAX_IN_FLIGHT);
    assert!(!world.commands.has_room(), "nothing more is read");
    assert_eq!(world.services.logs.channels.get("a").expect("a log").last_offset(), MAX_IN_FLIGHT as u64);
    let replies = world.answer_all();
    assert_eq!(replies.len(), MAX_IN_FLIGHT);
    for (reply, id) in replies.iter().zip(1..) {
        assert!(reply.starts_with(&format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{id},"#)), "{reply}");
    }
    assert!(world.commands.has_room());
}

#[test]
fn commands_of_another_kind_wait_for_those_before_them() {
    let mut world = SlowEngineWorld::new();
    world.receive(r#"{"id":1,"subscribe":{"channel":"a"}}"#);
    world.receive(r#"{"id":2,"subscribe":{"channel":"b"}}"#);
    assert!(world.commands.has_room());
    world.receive(r#"{"id":3,"unsubscribe":{"channel":"a"}}"#);
    assert!(!world.commands.has_room(), "the third is deferred, so nothing more is read");
    // Commands in the same text, or in texts read earlier, are deferred as well.
    world.publish(4);
    world.receive(r#"{"id":5,"subscribe":{}}"#);
    let ids: Vec<String> = world.answer_all().iter().map(|reply| reply[10..16].to_owned()).collect();
    assert_eq!(ids, [r#""id":1"#, r#""id":2"#, r#""id":3"#, r#""id":4"#, r#""id":5"#]);
    let subscriptions = world.attachment.session.subscriptions();
    assert_eq!(subscriptions.iter().map(|(channel, _)| channel.name().as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn acknowledgements_take_effect_at_once_and_are_answered_in_turn() {
    let mut world = SlowEngineWorld::new();
    world.publish(1);
    world.receive(r#"{"id":2,"ack":{"seq":0}}"#);
    assert!(world.written.0.is_empty());
    let replies = world.answer_all();
    assert!(replies[0].starts_with(r#"{"reply":{"id":1,"#), "{replies:?}");
    assert_eq!(replies[1], r#"{"reply":{"id":2,"ok":{}}}"#);
}

#[test]
fn close_is_answered_after_pending_commands() {
    let mut world = SlowEngineWorld::new();
    world.publish(1);
    world.receive(r#"{"id":2,"close":{}}"#);
    assert!(world.written.0.is_empty());
    assert!(matches!(world.attachment.session.phase(), Phase::Attached(_)));
    let replies = world.answer_all();
    assert!(replies[0].starts_with(r#"{"reply":{"id":1,"#), "{replies:?}");
    assert_eq!(replies[1], r#"{"reply":{"id":2,"ok":{}}}"#);
    assert_eq!(world.attachment.session.phase(), Phase::Closed(CloseReason::Client));
}

/// Reads a page of the channel `a`. Returns the offsets of its messages, whether there are more, and the epoch.
fn history(world: &mut SlowEngineWorld, fields: &str) -> (Vec<u64>, bool, Option<String>) {
    world.receive(&format!(r#"{{"id":1,"history":{{"channel":"a"{fields}}}}}"#));
    assert!(world.written.0.is_empty(), "the engine has not answered");
    let reply: Value = serde_json::from_str(&world.answer_all().concat()).expect("a reply");
    let page = &reply["reply"]["ok"];
    let messages = page["messages"].as_array().expect("messages").iter();
    let offsets = messages.map(|message| message["offset"].as_u64().expect("a number"));
    (offsets.collect(), page["more"] == true, page["epoch"].as_str().map(ToOwned::to_owned))
}

#[test]
fn a_history_is_read_in_pages() {
    let mut world = SlowEngineWorld::new();
    assert_eq!(history(&mut world, ""), (vec![], false, None), "the channel does not exist");
    (1..=10).for_each(|number| world.publish(number));
    world.answer_all();
    let (offsets, has_more, epoch) = history(&mut world, r#","limit":4"#);
    assert_eq!((offsets, has_more), (vec![7, 8, 9, 10], true));
    let epoch = epoch.expect("an epoch");
    let with_epoch = format!(r#","before":7,"limit":4,"epoch":"{epoch}""#);
    for (fields, offsets, has_more) in [
        ("", (1..=10).collect(), false),
        (&*with_epoch, vec![3, 4, 5, 6], true),
        (r#","before":3,"limit":4"#, vec![1, 2], false),
        (r#","before":3,"limit":2"#, vec![1, 2], false),
        (r#","before":1"#, vec![], false),
        (r#","since":0,"limit":4"#, vec![1, 2, 3, 4], true),
        (r#","since":4,"limit":6"#, (5..=10).collect(), false),
        (r#","since":10"#, vec![], false),
        (r#","since":18446744073709551615"#, vec![], false),
        (r#","before":7,"epoch":"other""#, vec![], false),
        (r#","since":7,"epoch":"other""#, vec![], false),
    ] {
        assert_eq!(history(&mut world, fields), (offsets, has_more, Some(epoch.clone())), "{fields}");
    }
}

#[test]
fn a_page_of_history_is_limited_in_bytes() {
    let mut world = SlowEngineWorld::new();
    for bytes in [1, 40_000, 100_000, 20_000, 40_000] {
        let data = "x".repeat(bytes);
        world.receive(&format!(r#"{{"publish":{{"channel":"a","data":"{data}"}}}}"#));
    }
    world.answer_all();
    for (fields, offsets, has_more) in [
        ("", vec![4, 5], true),
        (r#","before":4"#, vec![3], true),
        (r#","before":3"#, vec![1, 2], false),
        (r#","since":0"#, vec![1, 2], true),
        (r#","since":2"#, vec![3], true),
        (r#","since":3"#, vec![4, 5], false),
    ] {
        let (read, more, _) = history(&mut world, fields);
        assert_eq!((read, more), (offsets, has_more), "{fields}");
    }
}

#[test]
fn engine_errors_are_reported_to_the_client() {
    let mut world = SlowEngineWorld::new();
    for (error, code) in [
        (EngineError::Unavailable, "unavailable"),
        (EngineError::OutcomeUnknown, "outcome_unknown"),
        (EngineError::Overloaded, "overloaded"),
        (EngineError::TooManyChannels(TooManyChannels::Server { limit: 1 }), "limit"),
    ] {
        *world.engine.refusal.lock() = Some(error);
        world.publish(1);
        let replies = world.answer_all();
        let expected = format!(r#"{{"reply":{{"id":1,"error":{{"code":"{code}","message":"{error}"}}}}}}"#);
        assert_eq!(replies, [expected]);
    }
}
