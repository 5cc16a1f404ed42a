//! Processing of a gap.

use encke_core::dialect::json::Gap;

use super::{ChannelSubscription, SeqContent, SessionModel};
use crate::outcome::Verdict;
use crate::truth::Truth;

impl SessionModel {
    /// Processes a gap. `first` is the offset of the oldest message in the log, if the log still has the
    /// gap's epoch. An event stream acknowledges nothing, so messages may have left the ring that the server does
    /// not know to be received (`may_have_wrapped`). In a new epoch, the server then reports a gap, because it
    /// cannot know whether the client will resume from before the ring.
    pub(crate) fn gap(
        &mut self,
        gap: &Gap<'_>,
        (log, first): (usize, Option<u64>),
        may_have_wrapped: bool,
        truth: &Truth,
    ) -> Verdict {
        let is_fresh = self.remember(gap.seq, SeqContent::Gap)?;
        match &mut self.channels[log] {
            ChannelSubscription::Requested if is_fresh => self.early.push((log, None)),
            subscription @ ChannelSubscription::AtNextMessage(_) if is_fresh => {
                *subscription = ChannelSubscription::Unknown;
            }
            _ => {}
        }
        let (gaps_allowed, published) = (self.allows_gaps(), truth.log(log));
        let range = gap.from.zip(gap.to);
        if let Some(range) = range {
            self.known.report(published, &gap.epoch, range);
        }
        let ChannelSubscription::Active(position) = &mut self.channels[log] else { return Ok(()) };
        // The gap belongs to an earlier subscription, whose log may no longer exist.
        if gap.seq <= position.start_seq
            || position.was_sent_beside && published.was_before(&gap.epoch, &position.epoch)
        {
            return Ok(());
        }
        let was_in_another = range.is_none()
            && position.is_epoch_inferred
            && gap.epoch == position.epoch
            && published.is_also_in_other_epoch(&position.epoch, position.up_to);
        // A gap that is allowed after a resumption precedes the messages of its log.
        let must_continue = !gaps_allowed || position.last_seq > self.resumed_after && !self.has_gone_back;
        if range.is_none()
            && must_continue
            && !may_have_wrapped
            && published.continues_all(&position.epoch, &gap.epoch)
        {
            return Err(format!("a gap in epoch {}, which continues {position:?}", gap.epoch));
        }
        if was_in_another || published.may_continue_as(&position.epoch, &gap.epoch) {
            // A new epoch of the log continues the former one but lacks some of its messages.
            self.channels[log] = ChannelSubscription::AtNextMessage(Some(gap.epoch.clone().into_owned()));
            return Ok(());
        }
        if gap.epoch != position.epoch {
            return Err(format!("a gap in epoch {} at {position:?}", gap.epoch));
        }
        let Some((from, to)) = range else {
            // A gap of an earlier subscription may have been in transit when this subscribe was sent in a
            // separate request.
            let is_excused = gaps_allowed || position.was_sent_beside;
            let unexplained = || format!("an unexplained gap of unknown length at {position:?}");
            return if is_excused { Ok(()) } else { Err(unexplained()) };
        };
        let is_known = |offset| self.known.covers_in(published, &position.epoch, offset);
        let is_covered = gaps_allowed || (position.up_to + 1..from).all(is_known);
        if from > to || is_fresh && !is_covered {
            return Err(format!("the gap {from}..={to} does not cover what is missing at {position:?}"));
        }
        let is_explained =
            gaps_allowed || to <= position.start_offset || first.is_none_or(|first| to < first);
        if is_fresh && !is_explained {
            return Err(format!(
                "the gap {from}..={to} at {position:?}: the log contains messages from {first:?} on"
            ));
        }
        position.up_to = position.up_to.max(to);
        Ok(())
    }
}
