//! What a client is told of subscriptions that it has not asked for: that one has begun, or has ended.
//!
//! A notice has no seq, so it is told again rather than too seldom: to each connection whose client may not have had it, which is one that has nothing that was sent
//! after it. It is a part of its subscription, so there is no queue of what is to be told that could be lost, or grow. A notice comes before
//! all else that a connection is sent, and so before the first message of its subscription.

use super::Outbox;
use super::overlap::Source;
use super::subscription::Subscription;
use super::turn::{Run, Slot};

/// Ends of subscriptions that are remembered, told or not. A client that has missed more of them is not told of the oldest.
pub const MOST_ENDS: usize = 64;

/// What the client is told of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// That it has ended, rather than begun.
    pub(super) is_end: bool,
    /// Whatever else the client may follow.
    pub(super) granted: bool,
    /// The last seq there was when it was told; nothing: it is to be told.
    pub(super) told_after: Option<u64>,
}

impl<C> Outbox<C> {
    /// The subscription of which something is to be told next.
    pub(super) fn next_notice(&self) -> Option<u32> {
        self.rare.as_ref()?.next_notice()
    }

    /// Tells it. It is not known yet whether the client gets it.
    pub(super) fn take_notice(&mut self, slot: u32) -> Run {
        self.remove_notice(slot);
        // What has a seq by now may have reached the client before.
        let last = self.seq();
        let it = self.get_mut(slot).expect("there is something to tell of it");
        let start = it.start;
        let notice = it.notice_mut().expect("there is something to tell of it");
        notice.told_after = Some(last);
        if notice.is_end { Run::Ended } else { Run::Begun { offset: start } }
    }

    /// A connection begins, whose client has what was sent up to `seq`, and with it what was told before.
    pub(super) fn tell_again_after(&mut self, seq: u64) {
        if !self.has_notices() {
            return;
        }
        for it in self.existing_mut() {
            if let Some(notice) = it.notice_mut() {
                notice.told_after = notice.told_after.filter(|told| *told < seq);
            }
        }
        // What has ended first: it may have begun again.
        let mut untold: Vec<(bool, u32)> = self
            .existing()
            .filter_map(|(slot, it)| Some((slot, it.notice()?)))
            .filter(|(_, notice)| notice.told_after.is_none())
            .map(|(slot, notice)| (!notice.is_end, slot))
            .collect();
        untold.sort_unstable();
        self.set_notices(untold.into_iter().map(|(_, slot)| slot));
    }

    /// Nobody is to be told of this subscription any more.
    pub(super) fn drop_notice(&mut self, slot: u32) {
        let Some(it) = self.get_mut(slot) else { return };
        if it.notice().is_some() {
            it.set_notice(None);
            self.remove_notice(slot);
            self.note_notices();
        }
    }

    /// The client need not be told of the end of these: it follows them again.
    pub fn forget_ends(&mut self, is_this: impl Fn(&C) -> bool) {
        if self.has_notices() {
            self.forget_ends_if(|it| is_this(&it.channel));
        }
    }

    fn forget_ends_if(&mut self, is_this: impl Fn(&Subscription<C>) -> bool) {
        let ends: Vec<u32> = self.ends().filter(|(_, it)| is_this(it)).map(|(slot, _)| slot).collect();
        for slot in ends {
            self.drop_notice(slot);
            self.free_if_unused(slot);
        }
    }

    fn ends(&self) -> impl Iterator<Item = (u32, &Subscription<C>)> {
        self.existing().filter(|(_, it)| it.notice().is_some_and(|notice| notice.is_end))
    }

    /// Room for one more end: those go that the client knows, and if that is not enough, the one that was told first.
    fn make_room_for_an_end(&mut self) {
        let acknowledged = self.acknowledged;
        self.forget_ends_if(|it| it.told_after().is_some_and(|told| told < acknowledged));
        if self.ends().count() >= MOST_ENDS {
            let first = self.ends().min_by_key(|(_, it)| it.told_after().unwrap_or(u64::MAX));
            if let Some(first) = first.map(|(slot, _)| slot) {
                self.drop_notice(first);
                self.free_if_unused(first);
            }
        }
    }

    /// Ends the subscription, as [`Self::unsubscribe`], and has the client told, also if it may not have heard of it.
    pub fn unsubscribe_and_tell(&mut self, slot: Slot)
    where
        C: Source,
    {
        if self.get(slot.0).is_none_or(|it| !it.live) {
            return;
        }
        self.make_room_for_an_end();
        // First, so that the slot stays.
        self.have_told(slot.0, Notice { is_end: true, granted: false, told_after: None });
        self.end(slot.0);
    }

    /// This is to be told.
    pub(super) fn have_told(&mut self, slot: u32, notice: Notice) {
        let Some(it) = self.get_mut(slot) else { return };
        it.set_notice(Some(notice));
        self.remove_notice(slot);
        if notice.told_after.is_none() {
            self.push_notice(slot);
        }
        self.note_notices();
    }
}

impl<C: Source> Outbox<C> {
    /// Subscribes, as [`Self::subscribe_with`], and has the client told of it, which has not asked for it. `granted` is shown by
    /// [`SubscriptionView`](super::SubscriptionView).
    pub fn subscribe_and_tell(
        &mut self,
        channel: impl FnOnce(Slot) -> C,
        cursor: u64,
        gap: bool,
        granted: bool,
    ) -> Slot {
        let slot = self.subscribe_with(channel, cursor, gap);
        self.have_told(slot.0, Notice { is_end: false, granted, told_after: None });
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::outbox::{Bounds, WhenFull};

    const LOG: Bounds = Bounds { first: 1, last: 9 };

    impl Source for u64 {
        fn log(&self) -> u64 {
            *self
        }

        fn overlaps(&self, _: &Self) -> bool {
            false
        }
    }

    /// All that is to be told, or sent, by channel.
    fn all(outbox: &mut Outbox<u64>) -> Vec<(u64, Run)> {
        let mut told = Vec::new();
        while let Some(turn) = outbox.next_turn() {
            let channel = *outbox.channel(turn.slot).expect("each turn is somebody's");
            let run = outbox.take(turn, LOG, 100, |_| &[]);
            outbox.check_invariants();
            if run != Run::CaughtUp {
                told.push((channel, run));
            }
        }
        told
    }

    fn messages(seq: u64, offset: u64, count: usize) -> Run {
        Run::Messages { seq, offset, count, caught_up: true }
    }

    #[test]
    fn it_comes_before_all_else_and_again_until_something_new_has_come() {
        let mut outbox = Outbox::new(16);
        outbox.subscribe(1, 7, false);
        assert_eq!(all(&mut outbox), [(1, messages(1, 8, 2))]);
        let slot = outbox.subscribe_and_tell(|_| 2, 8, false, true);
        assert!(outbox.subscriptions().any(|it| it.granted && *it.channel == 2));
        let begun = (2, Run::Begun { offset: 8 });
        assert_eq!(all(&mut outbox), [begun, (2, messages(3, 9, 1))]);
        // Told once more after 3 was sent, it may have been lost with that connection.
        for (seq, again) in [(3, false), (2, true), (0, true), (3, true)] {
            outbox.resume(Some(seq), WhenFull::Stop);
            assert_eq!(all(&mut outbox).first() == Some(&begun), again, "after {seq}");
        }
        outbox.unsubscribe_and_tell(slot);
        outbox.check_invariants();
        assert_eq!(all(&mut outbox), [(2, Run::Ended)]);
        outbox.resume(Some(3), WhenFull::Stop);
        assert_eq!(all(&mut outbox), [(2, Run::Ended)]);
        outbox.forget_ends(|channel| *channel == 2);
        outbox.resume(Some(3), WhenFull::Stop);
        assert_eq!(all(&mut outbox), []);
        outbox.check_invariants();
    }

    /// A client that polls with nothing new in between must not be answered for ever.
    #[test]
    fn a_poll_is_not_told_again_what_the_last_was() {
        let mut outbox = Outbox::new(16);
        outbox.subscribe_and_tell(|_| 1, 9, false, false);
        assert_eq!(all(&mut outbox), [(1, Run::Begun { offset: 9 })]);
        outbox.resume_keeping(0, 0, true);
        assert_eq!(all(&mut outbox), []);
        outbox.resume_keeping(0, 0, false);
        assert_eq!(all(&mut outbox), [(1, Run::Begun { offset: 9 })]);
    }

    #[test]
    fn what_goes_on_elsewhere_is_told_as_it_is_there() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe_and_tell(|_| 1, 5, false, true);
        outbox.move_on(slot, |_| 2, Some(5), LOG).expect("it is followed");
        assert!(outbox.subscriptions().all(|it| it.granted));
        assert_eq!(all(&mut outbox), [(2, Run::Begun { offset: 5 }), (2, messages(1, 6, 4))]);
    }

    #[test]
    fn ends_are_bounded_and_the_oldest_is_forgotten() {
        let mut outbox = Outbox::new(16);
        let last = MOST_ENDS as u64;
        for channel in 0..=last {
            let slot = outbox.subscribe_and_tell(|_| channel, 9, false, false);
            outbox.unsubscribe_and_tell(slot);
            outbox.check_invariants();
        }
        let told = all(&mut outbox);
        assert_eq!(told, (1..=last).map(|channel| (channel, Run::Ended)).collect::<Vec<_>>());
        // What the client is known to have is forgotten first.
        outbox.subscribe(1_000, 8, false);
        all(&mut outbox);
        outbox.acknowledge(1);
        let slot = outbox.subscribe_and_tell(|_| last + 1, 9, false, false);
        outbox.unsubscribe_and_tell(slot);
        outbox.resume(Some(0), WhenFull::Stop);
        assert!(all(&mut outbox).contains(&(last + 1, Run::Ended)));
        assert_eq!(outbox.ends().count(), 1);
    }
}
