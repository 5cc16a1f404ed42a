//! Storage of an outbox. The first subscription is stored inline; state that few sessions need is boxed. Most
//! sessions have at most one subscription, and therefore no box.

use std::num::NonZeroU32;

use super::rare_state::Queues;
use super::{Outbox, Subscription};

/// Maximum number of subscriptions for which the vector grows by one at a time. By default it would start
/// with a capacity of four, and double it.
const EXACT_GROWTH_LIMIT: usize = 8;

impl<C> Outbox<C> {
    pub(super) fn get(&self, slot: u32) -> Option<&Subscription<C>> {
        match slot.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rare.as_ref()?.subscriptions.get(index as usize)?.as_ref(),
        }
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Subscription<C>> {
        match slot.checked_sub(1) {
            None => self.first.as_mut(),
            Some(index) => self.rare.as_mut()?.subscriptions.get_mut(index as usize)?.as_mut(),
        }
    }

    /// Iterates over all subscriptions by slot, including ended ones.
    pub(super) fn existing(&self) -> impl Iterator<Item = (u32, &Subscription<C>)> {
        let more = self.rare.iter().flat_map(|rare| &rare.subscriptions);
        (0..)
            .zip(std::iter::once(&self.first).chain(more))
            .filter_map(|(slot, it)| Some((slot, it.as_ref()?)))
    }

    pub(super) fn existing_mut(&mut self) -> impl Iterator<Item = &mut Subscription<C>> {
        let more = self.rare.iter_mut().flat_map(|rare| &mut rare.subscriptions);
        std::iter::once(&mut self.first).chain(more).flatten()
    }

    /// Returns a number that is greater than every slot in use.
    pub(super) fn slots(&self) -> u32 {
        let more = self.rare.as_ref().map_or(0, |rare| rare.subscriptions.len());
        u32::try_from(1 + more).expect("subscriptions are limited, far below 2^32")
    }

    pub(super) fn first_free_slot(&self) -> u32 {
        (0..self.slots()).find(|slot| self.get(*slot).is_none()).unwrap_or(self.slots())
    }

    /// Stores a subscription in the slot, or frees the slot.
    pub(super) fn set(&mut self, slot: u32, subscription: Option<Subscription<C>>) {
        let Some(index) = slot.checked_sub(1).map(|index| index as usize) else {
            self.first = subscription;
            return;
        };
        if subscription.is_none() && self.get(slot).is_none() {
            return;
        }
        let more = &mut self.rare.get_or_insert_default().subscriptions;
        if index >= more.len() {
            if more.len() < EXACT_GROWTH_LIMIT {
                more.reserve_exact(index + 1 - more.len());
            }
            more.resize_with(index + 1, || None);
        }
        more[index] = subscription;
        while more.pop_if(|last| last.is_none()).is_some() {}
        self.drop_empty_boxes();
    }

    /// Returns the ready subscription whose turn is next.
    pub(super) fn next_ready(&self) -> Option<u32> {
        self.next_ready.map(|after| after.get() - 1)
    }

    fn set_next_ready(&mut self, slot: Option<u32>) {
        self.next_ready = slot.and_then(|slot| NonZeroU32::new(slot + 1));
    }

    /// Iterates over the ready subscriptions in the order of their turns.
    pub(super) fn ready(&self) -> impl Iterator<Item = u32> {
        self.next_ready().into_iter().chain(self.rare.iter().flat_map(|rare| rare.waiting()))
    }

    /// Queues a turn after the turns of all ready subscriptions.
    pub(super) fn queue_turn(&mut self, slot: u32) {
        if self.next_ready.is_none() {
            self.set_next_ready(Some(slot));
        } else {
            self.queues_mut().waiting.push_back(slot);
        }
    }

    /// Removes the subscription's turn, if it has one.
    pub(super) fn remove_turn(&mut self, slot: u32) {
        if self.next_ready() == Some(slot) {
            let next = self.queues_if_any().and_then(|queues| queues.waiting.pop_front());
            self.set_next_ready(next);
        } else if let Some(queues) = self.queues_if_any() {
            queues.waiting.retain(|waiting| *waiting != slot);
        }
        self.drop_empty_boxes();
    }

    fn queues_mut(&mut self) -> &mut Queues {
        self.rare.get_or_insert_default().queues.get_or_insert_default()
    }

    fn queues_if_any(&mut self) -> Option<&mut Queues> {
        self.rare.as_mut()?.queues.as_deref_mut()
    }

    pub(super) fn pending_gaps(&self) -> impl Iterator<Item = u32> {
        self.rare.iter().flat_map(|rare| rare.pending_gaps())
    }

    pub(super) fn next_pending_gap(&self) -> Option<u32> {
        self.rare.as_ref()?.queues.as_ref()?.pending_gaps.front().copied()
    }

    /// Queues the gaps of these subscriptions, in this order.
    pub(super) fn queue_gaps(&mut self, slots: impl Iterator<Item = u32>) {
        self.queues_mut().pending_gaps.extend(slots);
    }

    /// Removes all pending gaps.
    pub(super) fn clear_pending_gaps(&mut self) {
        if let Some(queues) = self.queues_if_any() {
            queues.pending_gaps.clear();
        }
        self.drop_empty_boxes();
    }

    /// Removes the pending gap of a subscription. Returns whether there was one.
    pub(super) fn remove_pending_gap(&mut self, slot: u32) -> bool {
        let Some(Queues { pending_gaps, .. }) = self.queues_if_any() else { return false };
        let before = pending_gaps.len();
        pending_gaps.retain(|pending| *pending != slot);
        let was_there = before > pending_gaps.len();
        self.drop_empty_boxes();
        was_there
    }

    /// Replaces the queue of pending notices.
    pub(super) fn set_notices(&mut self, slots: impl Iterator<Item = u32>) {
        self.queues_mut().notices = slots.collect();
        self.drop_empty_boxes();
    }

    pub(super) fn push_notice(&mut self, slot: u32) {
        self.queues_mut().notices.push_back(slot);
    }

    pub(super) fn remove_notice(&mut self, slot: u32) {
        if let Some(queues) = self.queues_if_any() {
            queues.notices.retain(|pending| *pending != slot);
            self.drop_empty_boxes();
        }
    }

    pub(super) fn has_notices(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.has_notices)
    }

    /// Updates the flag returned by `has_notices`.
    pub(super) fn update_has_notices(&mut self) {
        let has_notices = self.existing().any(|(_, it)| it.notice().is_some());
        if has_notices || self.has_notices() {
            self.rare.get_or_insert_default().has_notices = has_notices;
            self.drop_empty_boxes();
        }
    }

    #[cfg(test)]
    pub(super) fn notices(&self) -> impl Iterator<Item = u32> {
        let queues = self.rare.iter().flat_map(|rare| &rare.queues);
        queues.flat_map(|queues| queues.notices.iter().copied())
    }

    pub(super) fn last_orphan_evicted(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.last_orphan_evicted)
    }

    /// Frees the boxes that are empty.
    pub(super) fn drop_empty_boxes(&mut self) {
        let Some(rare) = &mut self.rare else { return };
        if rare.queues.as_deref().is_some_and(Queues::is_empty) {
            rare.queues = None;
        }
        if rare.is_empty() {
            self.rare = None;
        }
    }

    /// Removes all subscriptions, turns, pending gaps and notices. Returns the subscriptions.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Subscription<C>> + use<C> {
        self.next_ready = None;
        let more = self.rare.take().map_or(Vec::new(), |rare| rare.subscriptions);
        std::iter::once(self.first.take()).chain(more).flatten()
    }
}
