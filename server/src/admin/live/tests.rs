use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Wake, Waker};

use bytes::Bytes;
use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use strum::VariantArray;
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::history::MAX_SAMPLES;
use super::*;
use crate::admission::RefusalReason;
use crate::client::test_services::on_slow_engine;
use crate::config::Settings as Configured;
use crate::server::assembly;

/// Waker that counts wake-ups.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn sample(feed: &Feed, number: usize) {
    feed.add(Bytes::from(format!(",{{{number}}}")), Bytes::from(format!("event {number}")));
}

type Viewer = BoxStream<'static, Bytes>;

fn viewer(feed: &Feed) -> Viewer {
    let (timeouts, _) = Timeouts::new(Arc::new(Clock::new(Duration::from_millis(500))), Duration::ZERO, 0);
    feed.view(Bytes::from_static(b"about ["), &timeouts).fuse().boxed()
}

/// Returns the next piece: `None` if no piece is available yet, `Some(None)` at the end of the stream.
fn next(viewer: &mut Viewer) -> Option<Option<String>> {
    next_for(viewer, Waker::noop())
}

fn next_for(viewer: &mut Viewer, waker: &Waker) -> Option<Option<String>> {
    let text = |piece: Bytes| String::from_utf8(piece.to_vec()).expect("text");
    match viewer.poll_next_unpin(&mut Task::from_waker(waker)) {
        std::task::Poll::Ready(piece) => Some(piece.map(text)),
        std::task::Poll::Pending => None,
    }
}

/// Returns all pieces that are available, as one string.
fn all(viewer: &mut Viewer) -> String {
    std::iter::from_fn(|| next(viewer).flatten()).collect()
}

#[test]
fn viewer_gets_the_history_and_then_each_sample_once() {
    let feed = Feed::default();
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
fn samples_added_while_the_history_is_read_are_part_of_it() {
    let feed = Feed::default();
    (0..2).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let read = [next(&mut viewer), next(&mut viewer)].map(Option::flatten).map(Option::unwrap_or_default);
    assert_eq!(read.concat(), "about [{0}");
    (2..4).for_each(|number| sample(&feed, number));
    assert_eq!(all(&mut viewer), ",{1},{2},{3}]\n\n", "no hole, and no sample twice");
}

#[test]
fn slow_viewer_gets_the_newest_sample() {
    let feed = Feed::default();
    let mut viewer = viewer(&feed);
    assert_eq!(all(&mut viewer), "about []\n\n");
    (0..10).for_each(|number| sample(&feed, number));
    assert_eq!(all(&mut viewer), "event 9");
}

#[test]
fn samples_added_while_a_full_history_is_read_are_part_of_it() {
    let feed = Feed::default();
    (0..MAX_SAMPLES).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let mut read = String::new();
    for number in MAX_SAMPLES.. {
        read += &next(&mut viewer).flatten().expect("there is more");
        if read.ends_with("]\n\n") {
            break;
        }
        if number % 10 == 0 {
            sample(&feed, number / 10 + MAX_SAMPLES);
        }
    }
    let numbers = read.split(['{', '}']).filter_map(|part| part.parse::<usize>().ok());
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers.len() > MAX_SAMPLES + 10, "{}", numbers.len());
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
}

#[test]
fn slowly_read_history_is_bounded() {
    let feed = Feed::default();
    (0..MAX_SAMPLES).for_each(|number| sample(&feed, number));
    let mut viewer = viewer(&feed);
    let most = 2 * MAX_SAMPLES;
    let mut read = vec![next(&mut viewer).flatten().expect("it begins")];
    for number in MAX_SAMPLES.. {
        let piece = next(&mut viewer).flatten().expect("there is more");
        read.push(piece);
        if read.last().is_some_and(|piece| piece == "]\n\n") {
            break;
        }
        // Add new samples, which replace the oldest ones.
        (0..3).for_each(|more| sample(&feed, 3 * number + more));
    }
    assert_eq!(read.len(), 1 + most + 1);
    assert!(read[1].starts_with('{') && read[2..=most].iter().all(|piece| piece.starts_with(",{")));
}

#[test]
fn waiting_viewers_are_woken_once_per_sample() {
    let feed = Feed::default();
    let (mut one, mut other) = (viewer(&feed), viewer(&feed));
    let woken = [Arc::<WakeCounter>::default(), Arc::default()];
    let wakers = woken.clone().map(Waker::from);
    let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
    all(&mut one);
    all(&mut other);
    // Polling repeatedly must not register a viewer more than once.
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
fn wheel_is_watched_while_there_are_viewers() {
    let feed = Feed::default();
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
fn all_streams_end_on_drain() {
    let feed = Feed::default();
    (0..3).for_each(|number| sample(&feed, number));
    let woken = Arc::<WakeCounter>::default();
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
    // Check that the event with the history is completed as well.
    assert_eq!(all(&mut reading), "]\n\n");
    assert_eq!(next(&mut reading), Some(None));
}

fn context() -> Context {
    let config = Configured::default().resolve().expect("the defaults are valid");
    let public = assembly::public(&config, Arc::new(on_slow_engine().0), CancellationToken::new());
    let (_, batches) = crossbeam_channel::bounded(1);
    assembly::admin(&config, &public, 8000, batches, Box::new(|| 0))
}

/// Maximum size of a sample, without webhooks.
const SAMPLE_BYTES: usize = 8 * 1024;

/// Measures a sample that uses every label, and assumes numbers that would take years to reach.
#[test]
fn sample_size_is_bounded() {
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
    let kept = encoding::encode_sample(&Sample::now(&context));
    // Assume that each number may grow by about 12 digits.
    let numbers = String::from_utf8_lossy(&kept)
        .split(|c: char| !c.is_ascii_digit())
        .filter(|text| !text.is_empty())
        .count();
    let longest = kept.len() + 12 * numbers;
    assert!(longest <= SAMPLE_BYTES, "{} bytes, {numbers} numbers", kept.len());
}
