use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Wake, Waker};

use bytes::Bytes;
use strum::VariantArray;
use tokio_util::sync::CancellationToken;

use super::history::KEPT;
use super::*;
use crate::admission::RefusalReason;
use crate::client::test_context::on_slow_engine;
use crate::clock::Clock;
use crate::config::Settings as Configured;
use crate::context;
use crate::timeouts::Timeouts;

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn sample(feed: &Feed, number: usize) {
    feed.add(Bytes::from(format!(",{{{number}}}")), Bytes::from(format!("event {number}")));
}

fn viewer(feed: &Arc<Feed>) -> Viewer {
    let (timeouts, _) = Timeouts::new(Arc::new(Clock::new(Duration::from_millis(500))), Duration::ZERO, 0);
    feed.view(Bytes::from_static(b"about ["), &timeouts)
}

/// The next piece, if there is one already; nothing at the end.
fn next(viewer: &mut Viewer) -> Option<Option<String>> {
    next_for(viewer, Waker::noop())
}

fn next_for(viewer: &mut Viewer, waker: &Waker) -> Option<Option<String>> {
    let text = |piece: Bytes| String::from_utf8(piece.to_vec()).expect("text");
    match viewer.poll_piece(&Task::from_waker(waker)) {
        std::task::Poll::Ready(piece) => Some(piece.map(text)),
        std::task::Poll::Pending => None,
    }
}

/// All that there is by now.
fn all(viewer: &mut Viewer) -> String {
    std::iter::from_fn(|| next(viewer).flatten()).collect()
}

#[test]
fn a_viewer_gets_what_was_and_then_each_sample_once() {
    let feed = Arc::default();
    let mut early = viewer(&feed);
    assert_eq!(all(&mut early), "about []\n\n");
    (0..3).for_each(|number| sample(&feed, number));
    let mut late = viewer(&feed);
    assert_eq!(all(&mut late), "about [{0},{1},{2}]\n\n");
    sample(&feed, 3);
    assert_eq!((all(&mut early), all(&mut late)), ("event 3".to_owned(), "event 3".to_owned()));
    assert_eq!((next(&mut early), next(&mut late)), (None, None));
}

#[test]
fn what_comes_while_the_history_is_read_is_in_it() {
    let feed = Arc::default();
    (0..2).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let read = [next(&mut viewer), next(&mut viewer)].map(Option::flatten).map(Option::unwrap_or_default);
    assert_eq!(read.concat(), "about [{0}");
    (2..4).for_each(|number| sample(&feed, number));
    assert_eq!(all(&mut viewer), ",{1},{2},{3}]\n\n", "no hole, and no sample twice");
}

#[test]
fn a_viewer_that_is_behind_gets_the_newest() {
    let feed = Arc::default();
    let mut viewer = viewer(&feed);
    assert_eq!(all(&mut viewer), "about []\n\n");
    (0..10).for_each(|number| sample(&feed, number));
    assert_eq!(all(&mut viewer), "event 9");
}

#[test]
fn what_comes_while_a_whole_history_is_read_is_part_of_it() {
    let feed = Arc::default();
    (0..KEPT).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let mut read = String::new();
    for number in KEPT.. {
        read += &next(&mut viewer).flatten().expect("there is more");
        if read.ends_with("]\n\n") {
            break;
        }
        if number % 10 == 0 {
            sample(&feed, number / 10 + KEPT);
        }
    }
    let numbers = read.split(['{', '}']).filter_map(|part| part.parse::<usize>().ok());
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers.len() > KEPT + 10, "{}", numbers.len());
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
}

#[test]
fn a_history_that_is_read_slowly_moves_on_and_has_an_end() {
    let feed = Arc::default();
    (0..KEPT).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let most = 2 * KEPT;
    let mut read = vec![next(&mut viewer).flatten().expect("it begins")];
    for number in KEPT.. {
        let piece = next(&mut viewer).flatten().expect("there is more");
        read.push(piece);
        if read.last().is_some_and(|piece| piece == "]\n\n") {
            break;
        }
        // What comes meanwhile takes the place of what is oldest.
        (0..3).for_each(|more| sample(&feed, 3 * number + more));
    }
    assert_eq!(read.len(), 1 + most + 1);
    assert!(read[1].starts_with('{') && read[2..=most].iter().all(|piece| piece.starts_with(",{")));
}

#[test]
fn those_who_wait_are_woken_once_a_sample_and_forgotten_when_they_leave() {
    let feed = Arc::default();
    let (mut one, mut other) = (viewer(&feed), viewer(&feed));
    let woken = [Arc::<Woken>::default(), Arc::default()];
    let wakers = woken.clone().map(Waker::from);
    let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
    all(&mut one);
    all(&mut other);
    // However often they are asked.
    for _ in 0..3 {
        assert_eq!((next_for(&mut one, &wakers[0]), next_for(&mut other, &wakers[1])), (None, None));
    }
    sample(&feed, 0);
    assert_eq!(counts(), [1, 1]);
    assert_eq!(next_for(&mut one, &wakers[0]), Some(Some("event 0".to_owned())));
    assert_eq!(next_for(&mut one, &wakers[0]), None);
    sample(&feed, 1);
    assert_eq!(counts(), [2, 1], "who does not wait is not woken");
    drop(one);
    sample(&feed, 2);
    assert_eq!(counts(), [2, 1]);
}

#[test]
fn the_wheel_is_watched_while_anyone_watches() {
    let feed: Arc<Feed> = Arc::default();
    let is_watched = || feed.is_watched();
    assert!(!is_watched());
    let (one, other) = (viewer(&feed), viewer(&feed));
    assert!(is_watched());
    assert_eq!(feed.rings(), None, "the wheel has not turned since");
    drop(one);
    assert!(is_watched());
    drop(other);
    assert!(!is_watched());
}

#[test]
fn at_the_end_all_streams_end_at_once() {
    let feed = Arc::default();
    (0..3).for_each(|number| sample(&feed, number));
    let woken = Arc::<Woken>::default();
    let (mut waiting, mut reading) = (viewer(&feed), viewer(&feed));
    all(&mut waiting);
    assert_eq!(next_for(&mut waiting, &Waker::from(Arc::clone(&woken))), None);
    assert_eq!(
        [next(&mut reading), next(&mut reading)].map(Option::flatten).map(Option::unwrap_or_default).concat(),
        "about [{0}"
    );
    feed.end();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(next(&mut waiting), Some(None));
    // Its history has an end, too.
    assert_eq!(all(&mut reading), "]\n\n");
    assert_eq!(next(&mut reading), Some(None));
}

fn context() -> Context {
    let config = Configured::default().resolve().expect("the defaults are valid");
    let public = context::public(&config, Arc::new(on_slow_engine().0), CancellationToken::new());
    let (_, batches) = crossbeam_channel::bounded(1);
    context::admin(&config, &public, 8000, batches, Box::new(|| 0))
}

/// The longest sample, but for webhooks.
const SAMPLE_BYTES: usize = 8 * 1024;

/// All labels there are, and numbers that take years.
#[test]
fn a_sample_has_a_bound() {
    let context = context();
    let metrics = &context.client.metrics;
    let suspended =
        ["pong_timeout", "slow_consumer", "token_expired", "peer_closed", "connection_lost", "bad_frame"]
            .into_iter()
            .chain(["unfinished", "disconnected", "poll_gap", "moved"])
            .map(|reason| ("suspended", reason));
    let closed =
        ["reconnect_window", "client", "draining", "idle", "lifetime", "kicked", "protocol_error", "limit"];
    let others = [
        ("opened", "connect"),
        ("resumed", "reconnect"),
        ("resumed", "take_over"),
        ("expired", "reconnect_window"),
    ];
    for (event, reason) in closed.into_iter().map(|reason| ("closed", reason)).chain(suspended).chain(others)
    {
        metrics.sessions.event(event, reason);
    }
    for reason in RefusalReason::VARIANTS {
        metrics.connections.refused(reason.into());
    }
    metrics.sessions.resumed(true);
    metrics.sessions.resumed(false);
    let kept = encoding::kept(&Sample::now(&context));
    // Each number may be some 12 digits longer than that.
    let numbers = String::from_utf8_lossy(&kept)
        .split(|c: char| !c.is_ascii_digit())
        .filter(|text| !text.is_empty())
        .count();
    let longest = kept.len() + 12 * numbers;
    assert!(longest <= SAMPLE_BYTES, "{} bytes, {numbers} numbers", kept.len());
}
