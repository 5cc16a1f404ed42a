use std::task::Waker;

use super::*;

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos((ms + 1) * 1_000_000)
}

fn new(limit: usize) -> Arc<Handshakes> {
    Handshakes::new(limit, false)
}

fn begin(handshakes: &Arc<Handshakes>, address: IpAddr) -> Handshake {
    handshakes.begin(address, at(0))
}

/// Begins another handshake when the grace period of all others is over.
fn begin_later(handshakes: &Arc<Handshakes>, address: IpAddr) -> Handshake {
    handshakes.begin(address, at(1000))
}

fn is_evicted(handshake: &Handshake) -> bool {
    handshake.eviction.is_requested.load(Ordering::Relaxed)
}

/// Asks the socket to close if it must. `is_active` as in [`Handshake::poll_evicted`].
fn closes(handshake: &Handshake, is_active: bool) -> bool {
    let task = &mut Context::from_waker(Waker::noop());
    handshake.poll_evicted(task, || is_active).is_ready()
}

/// Waits for a slot as long as only time brings one, and closes evicted sockets. Returns when there is a slot.
fn slot_at(handshakes: &Handshakes, sockets: &mut Vec<Handshake>, mut now: Timestamp) -> Timestamp {
    loop {
        match handshakes.room(now) {
            Room::Free => return now,
            Room::At(time) => now = time,
            Room::AfterOther => {
                let before = sockets.len();
                sockets.retain(|socket| !is_evicted(socket));
                assert!(sockets.len() < before, "a socket closes");
            }
        }
    }
}

#[test]
fn the_oldest_of_the_address_with_the_most_is_evicted() {
    let handshakes = new(4);
    let one = begin(&handshakes, address(1));
    let crowd: Vec<_> = (0..3).map(|_| begin(&handshakes, address(2))).collect();
    let evicted = |all: &[Handshake]| all.iter().map(is_evicted).collect::<Vec<_>>();
    assert_eq!(evicted(&crowd), [false; 3]);
    let newcomer = begin_later(&handshakes, address(3));
    assert_eq!(evicted(&crowd), [true, false, false]);
    let more = begin_later(&handshakes, address(2));
    assert_eq!(evicted(&crowd), [true, true, false]);
    assert_eq!(evicted(&[one, newcomer, more]), [false; 3]);
}

#[test]
fn a_client_behind_a_proxy_counts_by_its_own_address() {
    let handshakes = new(3);
    let behind: Vec<_> = (0..3).map(|_| begin(&handshakes, address(1))).collect();
    behind.iter().zip(2..).for_each(|(handshake, client)| handshake.set_address(address(client)));
    let crowd = [begin(&handshakes, address(2)), begin_later(&handshakes, address(2))];
    assert_eq!(
        [&behind[0], &behind[1], &behind[2], &crowd[0], &crowd[1]].map(is_evicted),
        [true, false, false, true, false]
    );
}

#[test]
fn without_grace_the_oldest_is_evicted_at_once() {
    let sockets = Handshakes::without_grace(2);
    let all = [(); 4].map(|()| begin(&sockets, address(1)));
    assert_eq!(all.each_ref().map(is_evicted), [true, true, false, false]);
}

#[test]
fn finished_handshakes_do_not_count() {
    let handshakes = new(2);
    for _ in 0..10 {
        let both = [begin(&handshakes, address(1)), begin(&handshakes, address(2))];
        assert!(!both.iter().any(is_evicted));
    }
    assert_eq!(handshakes.open(), 0);
}

#[test]
fn an_address_evicts_its_own_socket() {
    let handshakes = new(1);
    let first = begin(&handshakes, address(1));
    let second = begin_later(&handshakes, address(1));
    assert!(is_evicted(&first) && !is_evicted(&second));
}

/// Tests handshakes of sockets that were accepted earlier and have lost their session, or were upgraded.
#[test]
fn an_accepted_socket_evicts_none_within_its_grace_period() {
    let handshakes = new(2);
    let all = [100, 200, 300, 400].map(|since| handshakes.begin(address(1), at(since)));
    let evicted = || all.each_ref().map(is_evicted);
    assert_eq!(evicted(), [false; 4]);
    let fifth = handshakes.begin(address(1), at(1250));
    assert_eq!(evicted(), [true, true, true, false], "three exceeded the limit");
    drop(fifth);
    let _fifth = handshakes.begin(address(1), at(1250));
    drop(all);
    assert_eq!(handshakes.open(), 1);
}

/// The grace period shrinks while a socket waits, so the wait takes half of what is left of it.
#[test]
fn the_next_socket_waits_for_the_grace_period() {
    let handshakes = new(2);
    let first = handshakes.begin(address(1), at(0));
    assert_eq!(handshakes.room(at(10)), Room::Free);
    let second = handshakes.begin(address(1), at(300));
    assert_eq!(handshakes.room(at(300)), Room::At(at(650)));
    assert_eq!(handshakes.room(at(500)), Room::At(at(650)));
    assert!(!is_evicted(&first));
    assert_eq!(handshakes.room(at(650)), Room::AfterOther);
    assert!(is_evicted(&first) && !is_evicted(&second), "one is evicted for one");
    assert_eq!(handshakes.room(at(660)), Room::AfterOther);
    assert!(!is_evicted(&second), "one is closing");
    drop(first);
    assert_eq!(handshakes.room(at(670)), Room::Free);
}

/// A client that waits for longer than a second gives up.
#[test]
fn a_crowd_from_many_addresses_delays_clients_for_at_most_a_second() {
    let last_digits: [fn(u32) -> u32; 3] = [|n| n, |n| 10_000 - n, |n| n.wrapping_mul(7919) % 8192];
    for last_digits in last_digits {
        let handshakes = new(4096);
        let from = |number| IpAddr::from((0x7f00_0000 + last_digits(number)).to_be_bytes());
        let mut crowd: Vec<_> = (0..4096).map(|number| handshakes.begin(from(number), at(0))).collect();
        // 1,000 sockets a second, each of which may have to wait.
        let mut now = at(0);
        for number in 4096..8192 {
            let arrived = at(u64::from(number - 4096)).max(now);
            now = slot_at(&handshakes, &mut crowd, arrived);
            assert!(now.since(arrived) <= GRACE / 2, "{number}: {:?}", now.since(arrived));
            crowd.push(handshakes.begin(from(number), now));
        }
        assert!(now <= at(4096 + 1000), "{now:?}");
    }
}

/// A connection that waits for its next poll counts as a handshake, too.
#[test]
fn a_socket_that_waits_is_woken_whatever_else_begins() {
    let handshakes = new(2);
    let mut both = vec![begin(&handshakes, address(1)), begin(&handshakes, address(1))];
    let woken = Arc::new(CountWakes::default());
    handshakes.waiting.register(&Waker::from(Arc::clone(&woken)));
    assert_eq!(handshakes.room(at(1000)), Room::AfterOther);
    let other = handshakes.begin(address(1), at(1000));
    both.remove(0);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    drop(other);
    assert_eq!(handshakes.room(at(1000)), Room::Free);
}

#[derive(Default)]
struct CountWakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_request_that_is_not_read_yet_defers_the_eviction() {
    let handshakes = new(2);
    let mut both = vec![begin(&handshakes, address(1)), begin(&handshakes, address(1))];
    assert_eq!(handshakes.room(at(1000)), Room::AfterOther);
    assert!(!closes(&both[0], true), "its request is in the kernel");
    assert_eq!(handshakes.room(at(1000)), Room::AfterOther);
    assert!(closes(&both[1], false), "no request has arrived");
    both.pop();
    assert_eq!(handshakes.room(at(1000)), Room::Free);
    // The server has read the bytes, which are not a request.
    both[0].end_deferral();
    both.push(handshakes.begin(address(2), at(1000)));
    assert_eq!(slot_at(&handshakes, &mut both, at(1000)), at(1000));
    assert_eq!(both.len(), 1);
    assert!(!is_evicted(&both[0]));
}

#[test]
fn one_byte_after_the_other_defers_no_more_than_a_tls_handshake() {
    let handshakes = new(1);
    let socket = begin(&handshakes, address(1));
    for _ in 0..3 {
        assert_eq!(handshakes.room(at(1000)), Room::AfterOther);
        assert!(!closes(&socket, true));
        socket.end_deferral();
    }
    assert_eq!(handshakes.room(at(1000)), Room::AfterOther);
    assert!(closes(&socket, true));
}

#[test]
fn an_address_at_its_limit_loses_its_oldest_socket() {
    let handshakes = Handshakes::new(4096, true);
    let all = [(1, 0), (2, 10), (2, 20)].map(|(last, ms)| handshakes.begin(address(last), at(ms)));
    assert!(!handshakes.evict_from(address(2), at(100)), "accepted a moment ago");
    assert!(handshakes.evict_from(address(2), at(110)));
    assert!(handshakes.evict_from(address(2), at(120)));
    assert_eq!(all.each_ref().map(is_evicted), [false, true, true]);
    assert!(!handshakes.evict_from(address(2), at(2000)) && !handshakes.evict_from(address(3), at(2000)));
}

#[test]
fn without_descriptors_one_is_evicted_for_each_waiting_socket() {
    let handshakes = new(100);
    let mut crowd: Vec<_> = [0, 200, 400, 600].map(|since| handshakes.begin(address(1), at(since))).into();
    let evicted = |crowd: &[Handshake]| crowd.iter().filter(|one| is_evicted(one)).count();
    assert!(!handshakes.free_descriptor(at(900)), "none is past its grace period");
    assert_eq!((evicted(&crowd), handshakes.is_short_of_descriptors()), (0, true));
    for now in [1500, 1600, 1700] {
        assert!(handshakes.free_descriptor(at(now)));
        assert_eq!(evicted(&crowd), 1, "only one is evicted while one is closing");
    }
    crowd.remove(0);
    crowd.push(handshakes.begin(address(1), at(1700)));
    assert!(handshakes.free_descriptor(at(1700)));
    assert_eq!(evicted(&crowd), 1);
    crowd.truncate(1);
    assert!(!handshakes.is_short_of_descriptors(), "far below the limit");
    drop(crowd);
    assert!(!handshakes.free_descriptor(at(3000)));
    assert_eq!(handshakes.open(), 0);
}

#[test]
fn grace_shrinks_for_a_silent_crowd_that_holds_all_descriptors() {
    let handshakes = new(4096);
    let mut crowd: Vec<_> = (0..4).map(|_| begin(&handshakes, address(1))).collect();
    let mut now = 0;
    let mut waits = Vec::new();
    while waits.len() < 6 {
        let _ = handshakes.free_descriptor(at(now));
        let Some(evicted) = crowd.iter().position(is_evicted) else {
            now += 10;
            continue;
        };
        waits.push(at(now).since(crowd.remove(evicted).eviction.since).as_millis());
        crowd.push(handshakes.begin(address(1), at(now)));
    }
    assert!(waits.is_sorted_by(|longer, shorter| longer >= shorter), "{waits:?}");
    assert_eq!((waits[0], waits[5]), (500, 10), "{waits:?}");
}

#[test]
fn without_a_limit_none_is_evicted() {
    let handshakes = new(usize::MAX);
    let all: Vec<_> = (0..10).map(|_| begin_later(&handshakes, address(1))).collect();
    assert!(!all.iter().any(is_evicted) && !handshakes.is_short_of_descriptors());
    assert_eq!(handshakes.room(at(0)), Room::Free);
}

#[test]
fn grace_shrinks_for_a_single_silent_socket() {
    let handshakes = new(4096);
    let waits = (0..3).map(|_| {
        let silent = begin(&handshakes, address(1));
        let since = (0..).step_by(10).find(|ms| handshakes.free_descriptor(at(*ms)));
        drop(silent);
        since.expect("one is evicted")
    });
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits, [500, 10, 10]);
}

#[test]
fn freed_descriptors_are_used() {
    let handshakes = new(100);
    let mut all: Vec<_> = (0..10).map(|_| begin(&handshakes, address(1))).collect();
    let _ = handshakes.free_descriptor(at(0));
    for _ in 0..20 {
        // The limit grows by two for each socket that gets a descriptor.
        handshakes.table.lock().note_descriptor();
        all.push(begin(&handshakes, address(1)));
    }
    assert!(all.iter().all(|one| !is_evicted(one)));
    assert_eq!(handshakes.room(at(0)), Room::Free);
}

#[test]
fn grace_shrinks_for_a_silent_crowd() {
    let handshakes = new(4);
    let mut crowd: Vec<_> = (0..4).map(|_| begin(&handshakes, address(1))).collect();
    let mut now = at(0);
    let waits = (0..9).map(|_| {
        let arrived = now;
        now = slot_at(&handshakes, &mut crowd, now);
        crowd.push(handshakes.begin(address(1), now));
        now.since(arrived).as_millis()
    });
    assert_eq!(waits.collect::<Vec<_>>(), [500, 0, 0, 0, 10, 0, 0, 0, 10]);
    drop(crowd);
    let _next = [(); 4].map(|()| begin(&handshakes, address(1)));
    assert_eq!(handshakes.room(at(0)), Room::At(at(500)));
}
