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
    /// What has become of it.
    pub(super) became: Became,
    /// The last seq there was when it was told; nothing: it is to be told.
    pub(super) told_after: Option<u64>,
}

/// What has become of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It goes on. If `granted`, whatever else the client may follow.
    Begun {
        granted: bool,
    },
    Ended(WhyEnded),
}

/// Why a subscription has ended without the client's asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyEnded {
    /// The backend has ended it.
    Removed,
    /// The client may not follow the channel any more.
    Forbidden,
}

impl Notice {
    pub(super) const fn is_end(self) -> bool {
        matches!(self.became, Became::Ended(_))
    }

    /// Whether the client may follow the channel whatever else it may follow.
    pub(super) const fn is_granted(self) -> bool {
        matches!(self.became, Became::Begun { granted: true })
    }
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
        match notice.became {
            Became::Begun { .. } => Run::Begun { offset: start },
            Became::Ended(why) => Run::Ended(why),
        }
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
            .map(|(slot, notice)| (!notice.is_end(), slot))
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
        self.existing().filter(|(_, it)| it.notice().is_some_and(Notice::is_end))
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
        self.end_with_notice(slot, WhyEnded::Removed, None);
    }

    /// The same, where the client is told on the connection that it has now, beside the outbox. It is told again by the next one, if it may not have
    /// heard of it.
    pub fn unsubscribe_told(&mut self, slot: Slot, why: WhyEnded)
    where
        C: Source,
    {
        self.end_with_notice(slot, why, Some(self.seq()));
    }

    fn end_with_notice(&mut self, slot: Slot, why: WhyEnded, told_after: Option<u64>)
    where
        C: Source,
    {
        if self.get(slot.0).is_none_or(|it| !it.live) {
            return;
        }
        self.make_room_for_an_end();
        // First, so that the slot stays.
        self.have_told(slot.0, Notice { became: Became::Ended(why), told_after });
        self.end(slot.0);
    }

    /// The client follows this channel, as it has asked, and from here on whatever else it may follow. It need not be told.
    pub fn grant(&mut self, slot: Slot) {
        let became = Became::Begun { granted: true };
        let Some(it) = self.get_mut(slot.0).filter(|it| it.live) else { return };
        match it.notice() {
            Some(notice) => it.set_notice(Some(Notice { became, ..notice })),
            // Whoever has heard anything knows it.
            None => self.have_told(slot.0, Notice { became, told_after: Some(0) }),
        }
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
        self.have_told(slot.0, Notice { became: Became::Begun { granted }, told_after: None });
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
        assert_eq!(all(&mut outbox), [(2, Run::Ended(WhyEnded::Removed))]);
        outbox.resume(Some(3), WhenFull::Stop);
        assert_eq!(all(&mut outbox), [(2, Run::Ended(WhyEnded::Removed))]);
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
    fn an_end_that_was_told_beside_the_outbox_is_told_again_after_a_cut() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe(1, 8, false);
        assert_eq!(all(&mut outbox), [(1, messages(1, 9, 1))]);
        outbox.unsubscribe_told(slot, WhyEnded::Forbidden);
        outbox.check_invariants();
        assert_eq!(all(&mut outbox), [], "it was told");
        outbox.resume(Some(1), WhenFull::Stop);
        assert_eq!(all(&mut outbox), [(1, Run::Ended(WhyEnded::Forbidden))]);
        // What is sent after it, and has arrived, says that it has arrived, too.
        outbox.subscribe(2, 8, false);
        assert_eq!(all(&mut outbox), [(2, messages(2, 9, 1))]);
        outbox.resume(Some(2), WhenFull::Stop);
        assert_eq!(all(&mut outbox), []);
    }

    #[test]
    fn what_the_client_follows_may_be_granted_and_it_is_not_told() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe(1, 8, false);
        let is_granted = |outbox: &Outbox<u64>| outbox.subscriptions().all(|it| it.granted);
        assert!(!is_granted(&outbox));
        assert_eq!(all(&mut outbox), [(1, messages(1, 9, 1))]);
        outbox.grant(slot);
        outbox.check_invariants();
        assert!(is_granted(&outbox));
        outbox.resume(Some(1), WhenFull::Stop);
        assert_eq!(all(&mut outbox), []);
        // What its token has joined is told as ever.
        let joined = outbox.subscribe_and_tell(|_| 2, 9, false, false);
        outbox.grant(joined);
        outbox.check_invariants();
        assert!(is_granted(&outbox));
        assert_eq!(all(&mut outbox), [(2, Run::Begun { offset: 9 })]);
        // What has ended is granted to nobody.
        outbox.unsubscribe(slot);
        outbox.grant(slot);
        outbox.check_invariants();
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
        assert_eq!(
            told,
            (1..=last).map(|channel| (channel, Run::Ended(WhyEnded::Removed))).collect::<Vec<_>>()
        );
        // What the client is known to have is forgotten first.
        outbox.subscribe(1_000, 8, false);
        all(&mut outbox);
        outbox.acknowledge(1);
        let slot = outbox.subscribe_and_tell(|_| last + 1, 9, false, false);
        outbox.unsubscribe_and_tell(slot);
        outbox.resume(Some(0), WhenFull::Stop);
        assert!(all(&mut outbox).contains(&(last + 1, Run::Ended(WhyEnded::Removed))));
        assert_eq!(outbox.ends().count(), 1);
    }
}
