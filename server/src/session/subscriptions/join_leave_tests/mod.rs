//! Tests of which joins and leaves are published, and in what order.

mod model;
mod world;

use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineError;

use super::held_joins::MAX_HELD_PER_OWNER;
use super::notice_table::MAX_QUEUED;
use crate::session::SessionHandle;

use world::*;

#[test]
fn joins_and_leaves_are_published_in_order() {
    let world = JoinLeaveWorld::new();
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/x"));
    assert!(world.subscribe(&ann, "/a/x"), "subscribing again changes nothing");
    assert!(world.subscribe(&ann, "/b") && world.subscribe(&bob, "/a/*") && world.subscribe(&bob, "/a/y"));
    world.settle();
    world.unsubscribe(&ann, "/a/x");
    world.unsubscribe(&ann, "/a/x");
    world.kick(&bob);
    world.settle();
    let expected = [line('+', &ann), line('+', &bob), line('-', &ann), line('-', &bob)];
    assert_eq!(world.notices("/a/x"), expected);
    assert_eq!(world.notices("/a/y"), [line('+', &bob), line('-', &bob)]);
    assert!(world.notices("/b").is_empty(), "the namespace has no join_leave");
    assert_eq!(world.dropped(), 0);
}

#[test]
fn nothing_is_queued_without_join_leave() {
    let world = JoinLeaveWorld::with(&["namespace=[{prefix='/a/', at_ms=true}]"]);
    world.services.sessions.subscriptions.join_leave().start();
    let session = world.attach("ann", "*", None).session;
    assert!(world.subscribe(&session, "/a/x"));
    world.unsubscribe(&session, "/a/x");
    assert!(world.services.sessions.subscriptions.join_leave().is_none());
    assert_eq!((world.tasks.len(), world.notices("/a/x").len()), (0, 0));
}

#[test]
fn publishing_is_retried_while_the_engine_is_unreachable() {
    let world = JoinLeaveWorld::new();
    for error in [EngineError::Unavailable, EngineError::OutcomeUnknown, EngineError::Overloaded] {
        let session = world.attach("ann", "*", None).session;
        let before = world.notices("/a/x");
        *world.engine.refusal.lock() = Some(error);
        assert!(world.subscribe(&session, "/a/x"));
        world.kick(&session);
        for _ in 0..100 {
            world.tasks.poll_all();
            world.time.advance(Duration::from_millis(100));
        }
        assert_eq!(world.notices("/a/x"), before);
        *world.engine.refusal.lock() = None;
        world.settle();
        assert_eq!(world.notices("/a/x")[before.len()..], [line('+', &session), line('-', &session)]);
    }
    assert_eq!(world.dropped(), 0);
}

#[test]
fn notices_beyond_the_limit_are_dropped_and_counted() {
    let world = JoinLeaveWorld::new();
    let (session, other) = (world.attach("ann", "*", None).session, world.attach("bob", "*", None).session);
    *world.engine.refusal.lock() = Some(EngineError::Unavailable);
    for _ in 0..MAX_QUEUED / 2 {
        assert!(world.subscribe(&session, "/a/x"));
        world.unsubscribe(&session, "/a/x");
    }
    assert_eq!(world.dropped(), 0);
    assert!(world.subscribe(&session, "/a/x") && world.subscribe(&other, "/a/y"));
    assert_eq!(world.dropped(), 2);
    *world.engine.refusal.lock() = None;
    // All notices fit into a log that is limited only by bytes.
    while world.tasks.len() > 0 {
        world.tasks.poll_all();
        world.time.advance(Duration::from_millis(1));
    }
    world.kick(&session);
    world.kick(&other);
    world.settle();
    assert_eq!(world.notices("/a/x").last(), Some(&line('-', &session)));
    assert!(world.notices("/a/y").is_empty(), "a session whose join is lost does not leave");
    assert_eq!(world.dropped(), 2);
}

/// Presence lists the sessions that were announced: a client that keeps a list receives each change once.
#[test]
fn joins_beyond_the_limit_are_announced_later() {
    let world = JoinLeaveWorld::with_limit(2);
    let attach = |user: &str| world.attach(user, "*", None).session;
    let [first, second, third, fourth, fifth] = ["ann"; 5].map(attach);
    let mut expected = Vec::new();
    let expect = |expected: &[String], listed: &[&SessionHandle]| {
        (0..3).for_each(|_| world.tasks.poll_all());
        assert_eq!(world.notices("/a/x"), expected);
        let mut listed: Vec<_> = listed.iter().map(|session| session.id().to_string()).collect();
        let mut present = world.present("/a/x");
        listed.sort();
        present.sort();
        assert_eq!(present, listed);
    };
    for session in [&first, &second, &third, &fourth, &fifth] {
        assert!(world.subscribe(session, "/a/x"));
    }
    expected.extend([line('+', &first), line('+', &second)]);
    expect(&expected, &[&first, &second]);
    let bob = attach("bob");
    assert!(world.subscribe(&bob, "/a/x") && world.subscribe(&third, "/a/y"), "other limits");
    expected.push(line('+', &bob));
    expect(&expected, &[&first, &second, &bob]);
    assert_eq!(world.present("/a/y"), [third.id().to_string()]);
    world.unsubscribe(&third, "/a/x");
    world.unsubscribe(&first, "/a/x");
    expected.push(line('-', &first));
    expect(&expected, &[&second, &bob]);
    world.time.advance(Duration::from_secs(61));
    // The fifth has taken the place of the third.
    expected.extend([line('+', &fifth), line('+', &fourth)]);
    expect(&expected, &[&second, &bob, &fourth, &fifth]);
    world.kick(&fourth);
    world.kick(&fifth);
    expected.extend([line('-', &fourth), line('-', &fifth)]);
    expect(&expected, &[&second, &bob]);
    world.settle();
    assert_eq!((world.notices("/a/x").len(), world.dropped()), (expected.len(), 0));
}

#[test]
fn a_client_that_joins_repeatedly_causes_few_notices() {
    let world = JoinLeaveWorld::with_limit(60);
    for _ in 0..1_000 {
        let session = world.attach("ann", "*", None).session;
        assert!(world.subscribe(&session, "/a/x"));
        world.kick(&session);
        world.tasks.poll_all();
        world.time.advance(Duration::from_millis(10));
    }
    world.settle();
    assert_eq!((world.notices("/a/x").len(), world.dropped()), (2 * (60 + 9), 0));
}

/// A session whose join is lost is never listed, and does not leave either. Other owners are not affected.
#[test]
fn joins_beyond_those_held_back_are_lost() {
    let world = JoinLeaveWorld::with_limit(1);
    let mut sessions: Vec<_> =
        (0..MAX_HELD_PER_OWNER + 3).map(|_| world.attach("ann", "*", None).session).collect();
    assert!(sessions.iter().all(|session| world.subscribe(session, "/a/x")));
    assert_eq!(world.dropped(), 2);
    let bob = world.attach("bob", "*", None).session;
    assert!(world.subscribe(&bob, "/a/x"));
    world.kick(&sessions.pop().expect("a session"));
    (0..3).for_each(|_| world.tasks.poll_all());
    assert_eq!(world.notices("/a/x"), [line('+', &sessions[0]), line('+', &bob)]);
    assert_eq!(world.present("/a/x").len(), 2);
    // Sessions that are not listed leave room on the page for those that are.
    let page = world.services.logs.channels.presence_page("/a/x", 0, 2);
    assert_eq!((page.members.len(), page.total, page.next), (2, 2, None));
    sessions.iter().for_each(|session| world.kick(session));
    world.settle();
    assert_eq!(world.notices("/a/x").last(), Some(&line('-', &sessions[0])));
}

#[test]
fn a_join_takes_the_place_of_one_that_is_cancelled() {
    let world = JoinLeaveWorld::with_limit(1);
    let sessions: Vec<_> = (0..100).map(|_| world.attach("ann", "*", None).session).collect();
    assert!(sessions.iter().all(|session| world.subscribe(session, "/a/x")));
    sessions[1..99].iter().for_each(|session| world.kick(session));
    let began = world.services.timeouts.clock().now();
    world.settle();
    assert_eq!(world.notices("/a/x"), [line('+', &sessions[0]), line('+', &sessions[99])]);
    assert!(world.services.timeouts.clock().now().since(began) < Duration::from_secs(61));
}

#[test]
fn an_owner_joins_ten_times_as_often_in_all_channels() {
    let world = JoinLeaveWorld::with_limit(2);
    let session = world.attach("ann", "*", None).session;
    let channels: Vec<_> = (0..25).map(|number| format!("/a/{number}")).collect();
    assert!(channels.iter().all(|channel| world.subscribe(&session, channel)));
    let announced = || channels.iter().map(|channel| world.notices(channel).len()).sum::<usize>();
    (0..3).for_each(|_| world.tasks.poll_all());
    assert_eq!(announced(), 20);
    world.settle();
    assert_eq!((announced(), world.dropped()), (25, 0));
}

#[test]
fn notices_are_dropped_at_the_channel_limit() {
    let world = JoinLeaveWorld::new();
    let session = world.attach("ann", "*", None).session;
    *world.engine.refusal.lock() =
        Some(EngineError::TooManyChannels(encke_broker::channel::TooManyChannels::Server { limit: 1 }));
    assert!(world.subscribe(&session, "/a/x"));
    world.settle();
    assert_eq!((world.notices("/a/x").len(), world.dropped()), (0, 1));
}

#[test]
fn remaining_notices_are_published_by_the_next_process() {
    let (world, next) = (JoinLeaveWorld::new(), JoinLeaveWorld::with(&[JOIN_LEAVE]));
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/y"));
    world.settle();
    let sessions = &world.services.sessions;
    sessions.subscriptions.join_leave().stop();
    world.services.logs.channels.close();
    world.kick(&ann);
    sessions.move_all();
    world.settle();
    let stored = sessions.subscriptions.join_leave().snapshot();
    assert_eq!(world.notices("/a/x"), [line('+', &ann)]);
    assert_eq!(stored.len(), 1, "{stored:?}");
    let channels = &next.services.logs.channels;
    let name = ChannelName::new("/a/x", 255).expect("it is valid");
    let log = channels.acquire(&name, &QuotaOwner::Operator).expect("there is room");
    for notice in &stored {
        next.services.sessions.subscriptions.join_leave().restore(notice).expect("it is restored");
    }
    drop(log);
    assert!(channels.get("/a/x").is_some(), "the log is kept until the notice is published");
    // Nothing is published before the engine knows which logs it restores.
    let late = next.attach("carol", "*", None).session;
    assert!(next.subscribe(&late, "/a/x"));
    next.settle();
    assert!(next.notices("/a/x").is_empty());
    next.services.sessions.subscriptions.join_leave().start();
    next.settle();
    assert_eq!(next.notices("/a/x"), [line('-', &ann), line('+', &late)]);
    let without = JoinLeaveWorld::with(&[]);
    without.services.sessions.subscriptions.join_leave().restore(&stored[0]).expect("the notice is dropped");
    assert!(without.services.sessions.subscriptions.join_leave().snapshot().is_empty());
}

/// Tests that notices stay queued if the channels are closed before notice publishing is stopped.
#[test]
fn notices_stay_queued_when_the_logs_are_closed() {
    let world = JoinLeaveWorld::new();
    let session = world.attach("ann", "*", None).session;
    assert!(world.subscribe(&session, "/a/x"));
    world.services.logs.channels.close();
    world.settle();
    assert_eq!(
        (world.services.sessions.subscriptions.join_leave().snapshot().len(), world.dropped()),
        (1, 0)
    );
}

/// Joins and leaves of one session on one channel alternate, regardless of which threads act.
#[test]
fn notices_of_a_session_alternate_with_concurrent_threads() {
    let world = JoinLeaveWorld::new();
    let sessions: Vec<_> = (0..200).map(|_| world.attach("ann", "*", None).session).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| sessions.iter().for_each(|session| _ = world.subscribe(session, "/a/x")));
        scope.spawn(|| sessions.iter().for_each(|session| world.unsubscribe(session, "/a/x")));
        scope.spawn(|| sessions.iter().for_each(|session| world.kick(session)));
    });
    world.settle();
    let notices = world.notices("/a/x");
    for session in &sessions {
        let (joined, left) = (line('+', session), line('-', session));
        let own: Vec<_> = notices.iter().filter(|line| [&joined, &left].contains(line)).collect();
        for pair in own.chunks(2) {
            assert_eq!(pair, [&joined, &left], "{notices:?}");
        }
    }
}

/// Presence never contradicts a published notice, even while the channel still has the session among its
/// subscribers. Therefore a member list that starts from presence stays correct.
#[test]
fn presence_excludes_sessions_that_have_left() {
    let world = JoinLeaveWorld::new();
    let subscriptions = &world.services.sessions.subscriptions;
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/x") && world.subscribe(&bob, "/a/y"));
    // The state that another thread sees between the two steps of an unsubscribe.
    let left = subscriptions.table.change(&bob, |state| {
        let (slot, subscription) =
            state.find("/a/x").map(|(slot, subscription)| (slot, subscription.clone()))?;
        state.machine.outbox_mut().unsubscribe(slot);
        subscriptions.join_leave().enqueue_leave(&bob, &state.identity, &subscription);
        Some(subscription)
    });
    subscriptions.join_leave().publish(&name("/a/x"));
    world.settle();
    assert_eq!(world.notices("/a/x").last(), Some(&line('-', &bob)));
    assert_eq!(
        (world.present("/a/x"), world.present("/a/y")),
        (vec![ann.id().to_string()], vec![bob.id().to_string()])
    );
    subscriptions.complete_unsubscribe(&left.flatten().expect("it was subscribed"));
    assert_eq!(world.present("/a/x"), [ann.id().to_string()]);
}
