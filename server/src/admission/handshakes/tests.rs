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

/// One more, when all of the others have had their grace.
fn begin_later(handshakes: &Arc<Handshakes>, address: IpAddr) -> Handshake {
    handshakes.begin(address, at(1000))
}

fn is_cut(handshake: &Handshake) -> bool {
    handshake.cut.is_due.load(Ordering::Relaxed)
}

#[test]
fn the_oldest_of_the_address_with_most_is_cut() {
    let handshakes = Handshakes::new(4);
    let one = begin(&handshakes, address(1));
    let crowd: Vec<_> = (0..3).map(|_| begin(&handshakes, address(2))).collect();
    let cut = |all: &[Handshake]| all.iter().map(is_cut).collect::<Vec<_>>();
    assert_eq!(cut(&crowd), [false; 3]);
    let newcomer = begin_later(&handshakes, address(3));
    assert_eq!(cut(&crowd), [true, false, false]);
    let more = begin_later(&handshakes, address(2));
    assert_eq!(cut(&crowd), [true, true, false]);
    assert_eq!(cut(&[one, newcomer, more]), [false; 3]);
}

#[test]
fn a_client_behind_a_proxy_counts_for_itself() {
    let handshakes = Handshakes::new(3);
    let behind: Vec<_> = (0..3).map(|_| begin(&handshakes, address(1))).collect();
    behind.iter().zip(2..).for_each(|(handshake, client)| handshake.is_of(address(client)));
    let crowd = [begin(&handshakes, address(2)), begin_later(&handshakes, address(2))];
    assert_eq!(
        [&behind[0], &behind[1], &behind[2], &crowd[0], &crowd[1]].map(is_cut),
        [true, false, false, true, false]
    );
}

#[test]
fn without_grace_the_oldest_gives_way_at_once() {
    let sockets = Handshakes::without_grace(2);
    let all = [(); 4].map(|()| begin(&sockets, address(1)));
    assert_eq!(all.each_ref().map(is_cut), [true, true, false, false]);
}

#[test]
fn what_has_ended_does_not_count() {
    let handshakes = Handshakes::new(2);
    for _ in 0..10 {
        let both = [begin(&handshakes, address(1)), begin(&handshakes, address(2))];
        assert!(!both.iter().any(is_cut));
    }
    assert!(handshakes.open.lock().sockets.is_empty());
}

#[test]
fn one_address_cuts_its_own() {
    let handshakes = Handshakes::new(1);
    let first = begin(&handshakes, address(1));
    let second = begin_later(&handshakes, address(1));
    assert!(is_cut(&first) && !is_cut(&second));
}

/// A socket that has lost its session, or was upgraded, has been accepted already.
#[test]
fn one_that_could_not_wait_cuts_none_before_its_time() {
    let handshakes = Handshakes::new(2);
    let all = [100, 200, 300, 400].map(|since| handshakes.begin(address(1), at(since)));
    let cut = || all.each_ref().map(is_cut);
    assert_eq!(cut(), [false; 4]);
    assert_eq!(handshakes.is_full_until(at(400)), Some(at(1100)));
    let fifth = handshakes.begin(address(1), at(1250));
    assert_eq!(cut(), [true, true, true, false], "there were three too many");
    drop(fifth);
    let _fifth = handshakes.begin(address(1), at(1250));
    drop(all);
    assert_eq!(handshakes.open.lock().leaving, 0);
}

#[test]
fn the_next_waits_while_the_one_to_be_cut_may_yet_speak() {
    let handshakes = Handshakes::new(2);
    let first = handshakes.begin(address(1), at(0));
    assert_eq!(handshakes.is_full_until(at(10)), None);
    let second = handshakes.begin(address(1), at(300));
    assert_eq!(handshakes.is_full_until(at(300)), Some(at(1000)));
    assert_eq!(handshakes.is_full_until(at(1000)), None);
    drop(first);
    assert_eq!(handshakes.is_full_until(at(400)), None);
    let third = handshakes.begin(address(2), at(400));
    assert!(handshakes.is_full_until(at(1000)).is_some());
    let cutting = handshakes.begin(address(1), at(1400));
    assert!(is_cut(&second) && !is_cut(&third) && !is_cut(&cutting));
}

#[test]
fn where_descriptors_are_too_few_one_gives_way_for_each_that_waits() {
    let handshakes = Handshakes::new(100);
    let mut crowd: Vec<_> = [0, 200, 400, 600].map(|since| handshakes.begin(address(1), at(since))).into();
    let cut = |crowd: &[Handshake]| crowd.iter().filter(|one| is_cut(one)).count();
    assert!(!handshakes.give_way(at(900)), "none has had its grace");
    assert_eq!((cut(&crowd), handshakes.want_descriptors()), (0, true));
    for now in [1500, 1600, 1700] {
        assert!(handshakes.give_way(at(now)));
        assert_eq!(cut(&crowd), 1, "one is leaving, however often one waits for it");
    }
    crowd.remove(0);
    crowd.push(handshakes.begin(address(1), at(1700)));
    assert!(handshakes.give_way(at(1700)));
    assert_eq!(cut(&crowd), 1);
    crowd.truncate(1);
    assert!(!handshakes.want_descriptors(), "there are far fewer");
    drop(crowd);
    assert!(!handshakes.give_way(at(3000)));
    assert!(handshakes.open.lock().sockets.is_empty());
}

#[test]
fn a_silent_crowd_that_has_all_descriptors_gains_ever_less_time() {
    let handshakes = Handshakes::new(4096);
    let mut crowd: Vec<_> = (0..4).map(|_| begin(&handshakes, address(1))).collect();
    let mut now = 0;
    let mut waits = Vec::new();
    while waits.len() < 6 {
        let _ = handshakes.give_way(at(now));
        let Some(cut) = crowd.iter().position(is_cut) else {
            now += 10;
            continue;
        };
        waits.push(at(now).since(crowd.remove(cut).cut.since).as_millis());
        crowd.push(handshakes.begin(address(1), at(now)));
    }
    assert!(waits.is_sorted_by(|longer, shorter| longer >= shorter), "{waits:?}");
    assert_eq!((waits[0], waits[5]), (1000, 10), "{waits:?}");
}

#[test]
fn where_there_is_no_limit_none_is_cut() {
    let handshakes = Handshakes::new(usize::MAX);
    let all: Vec<_> = (0..10).map(|_| begin_later(&handshakes, address(1))).collect();
    assert!(!all.iter().any(is_cut) && !handshakes.want_descriptors());
    assert_eq!(handshakes.is_full_until(at(0)), None);
}

#[test]
fn a_silent_crowd_of_one_gains_ever_less_time() {
    let handshakes = Handshakes::new(4096);
    let waits = (0..3).map(|_| {
        let silent = begin(&handshakes, address(1));
        let since = (0..).step_by(10).find(|ms| handshakes.give_way(at(*ms)));
        drop(silent);
        since.expect("it is cut")
    });
    let waits: Vec<_> = waits.collect();
    assert!(waits[0] == 1000 && waits[2] < 1000, "{waits:?}");
}

#[test]
fn descriptors_that_are_there_again_are_used() {
    let handshakes = Handshakes::new(100);
    let mut all: Vec<_> = (0..10).map(|_| begin(&handshakes, address(1))).collect();
    let _ = handshakes.give_way(at(0));
    for _ in 0..20 {
        all.push(begin(&handshakes, address(1)));
    }
    assert!(all.iter().all(|one| !is_cut(one)));
    assert_eq!(handshakes.is_full_until(at(0)), None);
}

#[test]
fn a_silent_crowd_gains_ever_less_time() {
    let handshakes = Handshakes::new(4);
    let mut crowd: Vec<_> = (0..4).map(|_| begin(&handshakes, address(1))).collect();
    let waits = (0..5).map(|_| {
        let until = handshakes.is_full_until(at(0)).expect("it is full");
        crowd.push(handshakes.begin(address(1), until));
        let cut = crowd.iter().position(is_cut).expect("one is cut");
        until.since(crowd.remove(cut).cut.since).as_millis()
    });
    assert_eq!(waits.collect::<Vec<_>>(), [1000, 750, 500, 250, 10]);
    drop(crowd);
    let _next = [(); 4].map(|()| begin(&handshakes, address(1)));
    assert_eq!(handshakes.is_full_until(at(0)), Some(at(1000)));
}
