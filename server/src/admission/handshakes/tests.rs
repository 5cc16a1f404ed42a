use super::*;

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos((ms + 1) * 1_000_000)
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

#[test]
fn the_oldest_of_the_address_with_the_most_is_evicted() {
    let handshakes = Handshakes::new(4);
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
    let handshakes = Handshakes::new(3);
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
    let handshakes = Handshakes::new(2);
    for _ in 0..10 {
        let both = [begin(&handshakes, address(1)), begin(&handshakes, address(2))];
        assert!(!both.iter().any(is_evicted));
    }
    assert!(handshakes.open.lock().sockets.is_empty());
}

#[test]
fn an_address_evicts_its_own_socket() {
    let handshakes = Handshakes::new(1);
    let first = begin(&handshakes, address(1));
    let second = begin_later(&handshakes, address(1));
    assert!(is_evicted(&first) && !is_evicted(&second));
}

/// Tests handshakes of sockets that were accepted earlier and have lost their session, or were upgraded.
#[test]
fn an_accepted_socket_evicts_none_within_its_grace_period() {
    let handshakes = Handshakes::new(2);
    let all = [100, 200, 300, 400].map(|since| handshakes.begin(address(1), at(since)));
    let evicted = || all.each_ref().map(is_evicted);
    assert_eq!(evicted(), [false; 4]);
    assert_eq!(handshakes.full_until(at(400)), Some(at(1100)));
    let fifth = handshakes.begin(address(1), at(1250));
    assert_eq!(evicted(), [true, true, true, false], "three exceeded the limit");
    drop(fifth);
    let _fifth = handshakes.begin(address(1), at(1250));
    drop(all);
    assert_eq!(handshakes.open.lock().closing, 0);
}

#[test]
fn the_next_socket_waits_for_the_grace_period() {
    let handshakes = Handshakes::new(2);
    let first = handshakes.begin(address(1), at(0));
    assert_eq!(handshakes.full_until(at(10)), None);
    let second = handshakes.begin(address(1), at(300));
    assert_eq!(handshakes.full_until(at(300)), Some(at(1000)));
    assert_eq!(handshakes.full_until(at(1000)), None);
    drop(first);
    assert_eq!(handshakes.full_until(at(400)), None);
    let third = handshakes.begin(address(2), at(400));
    assert!(handshakes.full_until(at(1000)).is_some());
    let newest = handshakes.begin(address(1), at(1400));
    assert!(is_evicted(&second) && !is_evicted(&third) && !is_evicted(&newest));
}

#[test]
fn without_descriptors_one_is_evicted_for_each_waiting_socket() {
    let handshakes = Handshakes::new(100);
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
    assert!(handshakes.open.lock().sockets.is_empty());
}

#[test]
fn grace_shrinks_for_a_silent_crowd_that_holds_all_descriptors() {
    let handshakes = Handshakes::new(4096);
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
    assert_eq!((waits[0], waits[5]), (1000, 10), "{waits:?}");
}

#[test]
fn without_a_limit_none_is_evicted() {
    let handshakes = Handshakes::new(usize::MAX);
    let all: Vec<_> = (0..10).map(|_| begin_later(&handshakes, address(1))).collect();
    assert!(!all.iter().any(is_evicted) && !handshakes.is_short_of_descriptors());
    assert_eq!(handshakes.full_until(at(0)), None);
}

#[test]
fn grace_shrinks_for_a_single_silent_socket() {
    let handshakes = Handshakes::new(4096);
    let waits = (0..3).map(|_| {
        let silent = begin(&handshakes, address(1));
        let since = (0..).step_by(10).find(|ms| handshakes.free_descriptor(at(*ms)));
        drop(silent);
        since.expect("one is evicted")
    });
    let waits: Vec<_> = waits.collect();
    assert!(waits[0] == 1000 && waits[2] < 1000, "{waits:?}");
}

#[test]
fn freed_descriptors_are_used() {
    let handshakes = Handshakes::new(100);
    let mut all: Vec<_> = (0..10).map(|_| begin(&handshakes, address(1))).collect();
    let _ = handshakes.free_descriptor(at(0));
    for _ in 0..20 {
        all.push(begin(&handshakes, address(1)));
    }
    assert!(all.iter().all(|one| !is_evicted(one)));
    assert_eq!(handshakes.full_until(at(0)), None);
}

#[test]
fn grace_shrinks_for_a_silent_crowd() {
    let handshakes = Handshakes::new(4);
    let mut crowd: Vec<_> = (0..4).map(|_| begin(&handshakes, address(1))).collect();
    let waits = (0..5).map(|_| {
        let until = handshakes.full_until(at(0)).expect("the limit is reached");
        crowd.push(handshakes.begin(address(1), until));
        let evicted = crowd.iter().position(is_evicted).expect("one is evicted");
        until.since(crowd.remove(evicted).eviction.since).as_millis()
    });
    assert_eq!(waits.collect::<Vec<_>>(), [1000, 750, 500, 250, 10]);
    drop(crowd);
    let _next = [(); 4].map(|()| begin(&handshakes, address(1)));
    assert_eq!(handshakes.full_until(at(0)), Some(at(1000)));
}
