//! Notices that inform a client about subscriptions that began or ended without its request.
//!
//! A notice has no seq, so it may be sent more often than necessary: it is sent again on each new connection
//! whose client has received nothing that was sent after the notice. It is stored in its subscription, so
//! there is no separate queue of notice contents that could be lost or grow. Notices precede everything else
//! on a connection, including the first message of their subscription.

use super::Outbox;
use super::log_handle::LogHandle;
use super::notice::{EndReason, Notice, SubscriptionChange};
use super::subscription::Subscription;
use super::turn::{SubscriptionSlot, TurnOutcome};

/// Maximum number of ended subscriptions that are remembered, whether their notices were sent or not. If a
/// client misses more notices than this, it does not receive the oldest.
pub const MAX_END_NOTICES: usize = 64;

impl<C> Outbox<C> {
    /// Returns the subscription whose notice is to be sent next.
    pub(super) fn next_notice(&self) -> Option<u32> {
        self.rare.as_ref()?.next_notice()
    }

    /// Takes the notice of this subscription. It is not yet known whether the client will receive it.
    pub(super) fn take_notice(&mut self, slot: u32) -> TurnOutcome {
        self.remove_notice(slot);
        // Messages up to this seq may have been received before the notice, so they do not confirm it.
        let last = self.seq();
        let it = self.get_mut(slot).expect("the notice is pending");
        let start = it.start;
        let notice = it.notice_mut().expect("the notice is pending");
        notice.sent_after = Some(last);
        match notice.change {
            SubscriptionChange::Begun { .. } => TurnOutcome::Begun { offset: start },
            SubscriptionChange::Ended(why) => TurnOutcome::Ended(why),
        }
    }

    /// Queues all notices that the client of a new connection may not have received. The client has
    /// everything up to `seq`, including the notices sent before that.
    pub(super) fn requeue_notices_after(&mut self, seq: u64) {
        if !self.has_notices() {
            return;
        }
        for it in self.existing_mut() {
            if let Some(notice) = it.notice_mut() {
                notice.sent_after = notice.sent_after.filter(|sent| *sent < seq);
            }
        }
        // Send ends first, since a subscription may have ended and begun again.
        let mut pending: Vec<(bool, u32)> = self
            .existing()
            .filter_map(|(slot, it)| Some((slot, it.notice()?)))
            .filter(|(_, notice)| notice.sent_after.is_none())
            .map(|(slot, notice)| (!notice.is_end(), slot))
            .collect();
        pending.sort_unstable();
        self.set_notices(pending.into_iter().map(|(_, slot)| slot));
    }

    /// Removes the subscription's notice.
    pub(super) fn drop_notice(&mut self, slot: u32) {
        let Some(it) = self.get_mut(slot) else { return };
        if it.notice().is_some() {
            it.set_notice(None);
            self.remove_notice(slot);
            self.update_has_notices();
        }
    }

    /// Removes the end notices of channels for which `is_this` returns true, because the client has
    /// subscribed to them again.
    pub fn remove_end_notices(&mut self, is_this: impl Fn(&C) -> bool) {
        if self.has_notices() {
            self.remove_end_notices_if(|it| is_this(&it.channel));
        }
    }

    fn remove_end_notices_if(&mut self, is_this: impl Fn(&Subscription<C>) -> bool) {
        let ends: Vec<u32> = self.end_notices().filter(|(_, it)| is_this(it)).map(|(slot, _)| slot).collect();
        for slot in ends {
            self.drop_notice(slot);
            self.free_if_unused(slot);
        }
    }

    fn end_notices(&self) -> impl Iterator<Item = (u32, &Subscription<C>)> {
        self.existing().filter(|(_, it)| it.notice().is_some_and(Notice::is_end))
    }

    /// Makes room for one more end notice. Removes the end notices that the client is known to have received
    /// and, if that is not enough, the one that was sent first.
    fn make_room_for_end_notice(&mut self) {
        let acknowledged = self.acknowledged;
        self.remove_end_notices_if(|it| it.notice_sent_after().is_some_and(|sent| sent < acknowledged));
        if self.end_notices().count() >= MAX_END_NOTICES {
            let first = self.end_notices().min_by_key(|(_, it)| it.notice_sent_after().unwrap_or(u64::MAX));
            if let Some(first) = first.map(|(slot, _)| slot) {
                self.drop_notice(first);
                self.free_if_unused(first);
            }
        }
    }

    /// Ends the subscription like [`Self::unsubscribe`], and queues a notice for the client, even if the
    /// client may not know of the subscription.
    pub fn unsubscribe_with_notice(&mut self, slot: SubscriptionSlot)
    where
        C: LogHandle,
    {
        self.end_with_notice(slot, EndReason::Removed, None);
    }

    /// Like [`Self::unsubscribe_with_notice`], but for a client that has already been notified on the current
    /// connection, outside the outbox. The notice is sent again on the next connection if the client may not
    /// have received it.
    pub fn unsubscribe_already_notified(&mut self, slot: SubscriptionSlot, why: EndReason)
    where
        C: LogHandle,
    {
        self.end_with_notice(slot, why, Some(self.seq()));
    }

    fn end_with_notice(&mut self, slot: SubscriptionSlot, why: EndReason, sent_after: Option<u64>)
    where
        C: LogHandle,
    {
        if self.get(slot.0).is_none_or(|it| !it.live) {
            return;
        }
        self.make_room_for_end_notice();
        // Store the notice before ending the subscription, so that the slot is not freed.
        self.store_notice(slot.0, Notice { change: SubscriptionChange::Ended(why), sent_after });
        self.forget_predecessors(slot.0);
        self.end_subscription(slot.0);
    }

    /// Marks a subscription that the client requested as granted, regardless of the client's other
    /// permissions. Sends no notice.
    pub fn grant(&mut self, slot: SubscriptionSlot) {
        let change = SubscriptionChange::Begun { granted: true };
        let Some(it) = self.get_mut(slot.0).filter(|it| it.live) else { return };
        match it.notice() {
            Some(notice) => it.set_notice(Some(Notice { change, ..notice })),
            // A client that has received anything knows about the subscription.
            None => self.store_notice(slot.0, Notice { change, sent_after: Some(0) }),
        }
    }

    /// Stores a notice, and queues it unless it has been sent.
    pub(super) fn store_notice(&mut self, slot: u32, notice: Notice) {
        let Some(it) = self.get_mut(slot) else { return };
        it.set_notice(Some(notice));
        self.remove_notice(slot);
        if notice.sent_after.is_none() {
            self.push_notice(slot);
            self.release_gaps();
        }
        self.update_has_notices();
    }
}

impl<C: LogHandle> Outbox<C> {
    /// Subscribes like [`Self::subscribe_with`], and queues a notice for the client, which did not request
    /// the subscription. `granted` is returned in [`SubscriptionView`](super::SubscriptionView).
    pub fn subscribe_with_notice(
        &mut self,
        channel: impl FnOnce(SubscriptionSlot) -> C,
        cursor: u64,
        gap: bool,
        granted: bool,
    ) -> SubscriptionSlot {
        let slot = self.subscribe_with(channel, cursor, gap);
        self.store_notice(slot.0, Notice { change: SubscriptionChange::Begun { granted }, sent_after: None });
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::outbox::{ClientPosition, LogBounds, WhenFull};

    const LOG: LogBounds = LogBounds { first: 1, last: 9 };

    impl LogHandle for u64 {
        fn log(&self) -> u64 {
            *self
        }

        fn overlaps(&self, _: &Self) -> bool {
            false
        }
    }

    /// Takes everything from the outbox. Returns the outcomes with their channels.
    fn take_everything(outbox: &mut Outbox<u64>) -> Vec<(u64, TurnOutcome)> {
        let mut taken = Vec::new();
        while let Some(turn) = outbox.next_turn() {
            let channel = *outbox.channel(turn.slot).expect("each turn has a channel");
            let run = outbox.take(turn, LOG, 100, |_| &[]);
            outbox.check_invariants();
            if run != TurnOutcome::CaughtUp {
                taken.push((channel, run));
            }
        }
        taken
    }

    fn messages(seq: u64, offset: u64, count: usize) -> TurnOutcome {
        TurnOutcome::Messages { seq, offset, count, caught_up: true }
    }

    #[test]
    fn a_notice_comes_first_and_is_repeated_until_confirmed() {
        let mut outbox = Outbox::new(16);
        outbox.subscribe(1, 7, false);
        assert_eq!(take_everything(&mut outbox), [(1, messages(1, 8, 2))]);
        let slot = outbox.subscribe_with_notice(|_| 2, 8, false, true);
        assert!(outbox.subscriptions().any(|it| it.granted && *it.channel == 2));
        let begun = (2, TurnOutcome::Begun { offset: 8 });
        assert_eq!(take_everything(&mut outbox), [begun, (2, messages(3, 9, 1))]);
        // The notice is sent again after seq 3, so it may have been lost with that connection.
        for (seq, again) in [(3, false), (2, true), (0, true), (3, true)] {
            outbox.resume(Some(seq), WhenFull::Stop);
            assert_eq!(take_everything(&mut outbox).first() == Some(&begun), again, "after {seq}");
        }
        outbox.unsubscribe_with_notice(slot);
        outbox.check_invariants();
        assert_eq!(take_everything(&mut outbox), [(2, TurnOutcome::Ended(EndReason::Removed))]);
        outbox.resume(Some(3), WhenFull::Stop);
        assert_eq!(take_everything(&mut outbox), [(2, TurnOutcome::Ended(EndReason::Removed))]);
        outbox.remove_end_notices(|channel| *channel == 2);
        outbox.resume(Some(3), WhenFull::Stop);
        assert_eq!(take_everything(&mut outbox), []);
        outbox.check_invariants();
    }

    /// If notices were repeated, a client that polls while there are no new messages would receive answers in
    /// an endless loop.
    #[test]
    fn a_notice_is_not_repeated_on_the_next_poll() {
        let mut outbox = Outbox::new(16);
        outbox.subscribe_with_notice(|_| 1, 9, false, false);
        assert_eq!(take_everything(&mut outbox), [(1, TurnOutcome::Begun { offset: 9 })]);
        outbox.resume_keeping(ClientPosition { seq: 0, confirmed: 0 }, true);
        assert_eq!(take_everything(&mut outbox), []);
        outbox.resume_keeping(ClientPosition { seq: 0, confirmed: 0 }, false);
        assert_eq!(take_everything(&mut outbox), [(1, TurnOutcome::Begun { offset: 9 })]);
    }

    #[test]
    fn an_end_notice_sent_outside_the_outbox_is_repeated_after_a_disconnect() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe(1, 8, false);
        assert_eq!(take_everything(&mut outbox), [(1, messages(1, 9, 1))]);
        outbox.unsubscribe_already_notified(slot, EndReason::Forbidden);
        outbox.check_invariants();
        assert_eq!(take_everything(&mut outbox), [], "the client was already notified");
        outbox.resume(Some(1), WhenFull::Stop);
        assert_eq!(take_everything(&mut outbox), [(1, TurnOutcome::Ended(EndReason::Forbidden))]);
        // Once a message sent after the notice has arrived, the notice is confirmed, too.
        outbox.subscribe(2, 8, false);
        assert_eq!(take_everything(&mut outbox), [(2, messages(2, 9, 1))]);
        outbox.resume(Some(2), WhenFull::Stop);
        assert_eq!(take_everything(&mut outbox), []);
    }

    #[test]
    fn granting_a_subscription_sends_no_notice() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe(1, 8, false);
        let is_granted = |outbox: &Outbox<u64>| outbox.subscriptions().all(|it| it.granted);
        assert!(!is_granted(&outbox));
        assert_eq!(take_everything(&mut outbox), [(1, messages(1, 9, 1))]);
        outbox.grant(slot);
        outbox.check_invariants();
        assert!(is_granted(&outbox));
        outbox.resume(Some(1), WhenFull::Stop);
        assert_eq!(take_everything(&mut outbox), []);
        // A subscription that the token requested still gets its notice.
        let joined = outbox.subscribe_with_notice(|_| 2, 9, false, false);
        outbox.grant(joined);
        outbox.check_invariants();
        assert!(is_granted(&outbox));
        assert_eq!(take_everything(&mut outbox), [(2, TurnOutcome::Begun { offset: 9 })]);
        // Granting an ended subscription has no effect.
        outbox.unsubscribe(slot);
        outbox.grant(slot);
        outbox.check_invariants();
    }

    #[test]
    fn switching_logs_keeps_the_notice_and_the_grant() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe_with_notice(|_| 1, 5, false, true);
        outbox.switch_log(slot, |_| 2, Some(5), LOG).expect("the subscription is live");
        assert!(outbox.subscriptions().all(|it| it.granted));
        assert_eq!(
            take_everything(&mut outbox),
            [(2, TurnOutcome::Begun { offset: 5 }), (2, messages(1, 6, 4))]
        );
    }

    #[test]
    fn end_notices_are_bounded_and_the_oldest_is_dropped() {
        let mut outbox = Outbox::new(16);
        let last = MAX_END_NOTICES as u64;
        for channel in 0..=last {
            let slot = outbox.subscribe_with_notice(|_| channel, 9, false, false);
            outbox.unsubscribe_with_notice(slot);
            outbox.check_invariants();
        }
        let taken = take_everything(&mut outbox);
        assert_eq!(
            taken,
            (1..=last).map(|channel| (channel, TurnOutcome::Ended(EndReason::Removed))).collect::<Vec<_>>()
        );
        // The end notices that the client is known to have received are removed first.
        outbox.subscribe(1_000, 8, false);
        take_everything(&mut outbox);
        outbox.acknowledge(1);
        let slot = outbox.subscribe_with_notice(|_| last + 1, 9, false, false);
        outbox.unsubscribe_with_notice(slot);
        outbox.resume(Some(0), WhenFull::Stop);
        assert!(take_everything(&mut outbox).contains(&(last + 1, TurnOutcome::Ended(EndReason::Removed))));
        assert_eq!(outbox.end_notices().count(), 1);
    }
}
