//! The client: a page, and the machine below it (the browser and the kernel), which answers ping frames
//! before the page has processed the messages preceding them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::coverage::Coverage;
use super::server_world::{ServerWorld, WireFrame};
use crate::session::{ConnectionId, ConnectionInput, ConnectionKind, Heartbeat};

const HOLD: Duration = Duration::from_millis(600);

/// The complete state of a page. The page may later continue from a saved copy.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientPage {
    /// The seq that the page reports when it connects.
    pub(super) seq: u64,
    /// The highest seq that the page has ever received.
    pub(super) highest: u64,
    /// Position in each subscription.
    cursors: Vec<Option<PageCursor>>,
    /// Messages that were received or reported missing.
    known: BTreeSet<usize>,
    /// Subscriptions for which a notice was received, and whether it reported an end.
    notices: BTreeMap<usize, bool>,
}

#[derive(Clone, Copy, Debug)]
struct PageCursor {
    /// All offsets up to this one were received or reported missing.
    up_to: u64,
    gap_received: bool,
}

impl ClientPage {
    /// Asserts that every message of this subscription up to `last` was received through any subscription, or
    /// was reported missing.
    pub(super) fn assert_has(&self, subscription: usize, last: u64, world: &ServerWorld) {
        let start = world.subscriptions[subscription].start;
        self.assert_knows(subscription, start + 1..=last, world);
    }

    /// Asserts that the page has received the notices about its subscriptions.
    pub(super) fn assert_notified(&self, world: &ServerWorld) {
        for (index, it) in world.subscriptions.iter().enumerate() {
            let notice = self.notices.get(&index).copied();
            if it.live && it.by_server && !world.begin_notices_may_be_missing {
                assert_eq!(notice, Some(false), "the beginning of {index} was reported");
            }
            if it.notifies_end && !world.end_notices_may_be_missing && notice.is_some() {
                assert_eq!(notice, Some(true), "the end of {index} was reported");
            }
        }
    }

    fn assert_notified_before(&self, subscription: usize, live: bool, world: &ServerWorld) {
        let is_notified = self.notices.contains_key(&subscription);
        let needs_notice =
            live && world.subscriptions[subscription].by_server && !world.begin_notices_may_be_missing;
        assert!(
            is_notified || !needs_notice,
            "a message arrived before the notice of subscription {subscription}"
        );
    }

    fn assert_knows(&self, subscription: usize, offsets: impl Iterator<Item = u64>, world: &ServerWorld) {
        for offset in offsets {
            let is_known = self.known.contains(&world.message(subscription, offset));
            assert!(
                is_known,
                "neither received nor reported missing: {offset} of subscription {subscription}"
            );
        }
    }

    fn cursor(&mut self, subscription: usize, world: &ServerWorld) -> &mut PageCursor {
        if self.cursors.len() <= subscription {
            self.cursors.resize(subscription + 1, None);
        }
        let start = world.subscriptions[subscription].start;
        self.cursors[subscription].get_or_insert(PageCursor { up_to: start, gap_received: false })
    }

    fn message(&mut self, seq: u64, subscription: usize, offset: u64, live: bool, world: &ServerWorld) {
        self.assert_notified_before(subscription, live, world);
        let fresh = seq > self.highest;
        let gap_first = world.subscriptions[subscription].gap;
        let cursor = *self.cursor(subscription, world);
        if !fresh {
            assert!(
                offset <= cursor.up_to,
                "a resent message was received before: {offset} at seq {seq} is beyond {cursor:?}"
            );
            return;
        }
        assert!(offset > cursor.up_to, "received twice: {offset} at {cursor:?}");
        // An ended subscription may have holes.
        if live && !world.gaps_may_be_late {
            self.assert_knows(subscription, cursor.up_to + 1..offset, world);
        }
        if live {
            assert!(cursor.gap_received || !gap_first, "the gap precedes the messages");
        }
        self.cursor(subscription, world).up_to = offset;
        self.known.insert(world.message(subscription, offset));
    }

    fn gap(
        &mut self,
        seq: u64,
        subscription: usize,
        range: Option<(u64, u64)>,
        to: u64,
        live: bool,
        world: &ServerWorld,
    ) {
        self.assert_notified_before(subscription, live, world);
        let fresh = seq > self.highest;
        let it = &world.subscriptions[subscription];
        let asked_for = it.gap && range.is_none();
        assert!(asked_for || world.gaps_allowed, "an unexpected gap: {range:?}");
        let cursor = *self.cursor(subscription, world);
        match range {
            None => self.cursor(subscription, world).gap_received = true,
            Some((from, to)) => {
                assert!(
                    !fresh || to > cursor.up_to,
                    "the messages of a gap were received: {range:?} at {cursor:?}"
                );
                if live && !world.gaps_may_be_late {
                    self.assert_knows(subscription, cursor.up_to + 1..from, world);
                }
                assert!(!live || cursor.gap_received || !it.gap, "a gap of unknown length has no range");
            }
        }
        if !world.gaps_allowed {
            // The gap covers only messages from before the subscription began.
            return;
        }
        let from = range.map_or(it.start + 1, |(from, _)| from);
        self.known.extend((from..=to).map(|offset| world.message(subscription, offset)));
        // Messages covered by a gap may still arrive.
        let to = range.map_or(0, |(_, to)| to);
        let cursor = self.cursor(subscription, world);
        cursor.up_to = cursor.up_to.max(to);
    }
}

/// The client's side of a connection.
#[derive(Debug)]
pub(super) struct ClientLink {
    pub(super) id: ConnectionId,
    pub(super) kind: ConnectionKind,
    /// Frames sent by the server.
    pub(super) network: VecDeque<WireFrame>,
    /// Frames read by the machine but not yet by the page. Ping frames among them have been answered.
    machine: VecDeque<WireFrame>,
    /// Inputs sent by the client.
    pub(super) to_server: VecDeque<ConnectionInput>,
    /// Last seq that the page read on this connection.
    read: u64,
    /// Whether this is a poll whose answer has arrived.
    pub(super) answered: bool,
    /// Whether this is a stream on which the client sends requests to be held.
    pub(super) holds: bool,
}

impl ClientLink {
    pub(super) fn new(id: ConnectionId, kind: ConnectionKind, seq: Option<u64>) -> Self {
        Self {
            id,
            kind,
            network: VecDeque::new(),
            machine: VecDeque::new(),
            to_server: VecDeque::new(),
            read: seq.unwrap_or(0),
            answered: false,
            holds: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct ModelClient {
    pub(super) page: ClientPage,
    pub(super) link: Option<ClientLink>,
    /// Whether the machine answers a ping only after the page has read everything before the previous ping,
    /// which is what the server assumes.
    pub(super) pongs_after_reading: bool,
    /// Whether the page reports its highest seq rather than its last one.
    pub(super) reports_highest: bool,
    /// Whether the client never reports a seq, and must not receive duplicates.
    pub(super) at_most_once: bool,
}

impl ModelClient {
    /// Lets the machine read one frame from the network.
    pub(super) fn machine_reads(&mut self, world: &ServerWorld, coverage: &mut Coverage) -> bool {
        let Some(frame) = self.link.as_mut().and_then(|link| link.network.pop_front()) else { return false };
        let kind = self.link.as_ref().map(|link| link.kind);
        if let (WireFrame::Ping { seq }, Some(ConnectionKind::Stream(Heartbeat::Frame))) = (frame, kind) {
            while self.pongs_after_reading && self.unread().any(|it| matches!(it, WireFrame::Ping { .. })) {
                self.page_reads(world, coverage);
            }
            self.send_input(ConnectionInput::PongFrame { seq });
        }
        self.link.as_mut().expect("the connection exists").machine.push_back(frame);
        true
    }

    fn unread(&self) -> impl Iterator<Item = &WireFrame> {
        self.link.iter().flat_map(|link| &link.machine)
    }

    /// Lets the page read one frame from the machine.
    pub(super) fn page_reads(&mut self, world: &ServerWorld, coverage: &mut Coverage) -> bool {
        let Some(link) = &mut self.link else { return false };
        let Some(frame) = link.machine.pop_front() else { return false };
        let seq = match frame {
            WireFrame::Ping { seq } => {
                if link.kind == ConnectionKind::Stream(Heartbeat::Message) {
                    self.send_input(ConnectionInput::PongMessage { seq });
                }
                return true;
            }
            WireFrame::Reply => {
                self.request_hold();
                return true;
            }
            WireFrame::Notice { subscription, is_end } => {
                self.page.notices.insert(subscription, is_end);
                return true;
            }
            WireFrame::Message { seq, .. } | WireFrame::Gap { seq, .. } => seq,
        };
        let may_go_back = link.holds && !self.at_most_once;
        assert!(link.read < seq || may_go_back, "seqs are ascending: {seq} after {}", link.read);
        link.read = seq;
        if seq <= self.page.highest {
            coverage.record("duplicate");
        }
        match frame {
            WireFrame::Message { subscription, offset, live, .. } => {
                assert!(!self.at_most_once || seq > self.page.highest, "{seq} is received twice");
                self.page.message(seq, subscription, offset, live, world);
            }
            WireFrame::Gap { subscription, range, to, live, .. } => {
                self.page.gap(seq, subscription, range, to, live, world);
            }
            WireFrame::Ping { .. } | WireFrame::Reply | WireFrame::Notice { .. } => {
                unreachable!("returned above")
            }
        }
        self.page.highest = self.page.highest.max(seq);
        self.page.seq = if self.reports_highest { self.page.highest } else { seq };
        true
    }

    /// Sends a request that the server holds on a stream.
    pub(super) fn request_hold(&mut self) {
        let seq = (!self.at_most_once).then_some(self.page.seq);
        self.send_input(ConnectionInput::Hold { hold: HOLD, seq });
    }

    pub(super) fn send_input(&mut self, input: ConnectionInput) {
        if let Some(link) = &mut self.link {
            link.to_server.push_back(input);
        }
    }

    /// Closes the connection. The page receives or loses the frames that its machine has read. The returned
    /// flag is true if the server may consider some of the lost messages received, because two pings sent
    /// after them were answered.
    pub(super) fn cut(
        &mut self,
        page_gets_all: bool,
        world: &ServerWorld,
        coverage: &mut Coverage,
    ) -> Option<(ClientLink, bool)> {
        while page_gets_all && self.page_reads(world, coverage) {}
        let link = self.link.take()?;
        let answered = link.machine.iter().filter(|it| matches!(it, WireFrame::Ping { .. })).count();
        let lost = answered >= 2 && link.kind == ConnectionKind::Stream(Heartbeat::Frame);
        assert!(!lost || !self.pongs_after_reading);
        Some((link, lost))
    }
}
