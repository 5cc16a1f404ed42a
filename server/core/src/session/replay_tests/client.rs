//! The client: a page, and below it the machine that answers ping frames before the page has looked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::coverage::Coverage;
use super::world::{Frame, World};
use crate::session::{ConnectionId, ConnectionInput, ConnectionKind, Heartbeat};

const HOLD: Duration = Duration::from_millis(600);

/// All that a page knows. It may keep a copy, and go on from that.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// What it says it has.
    pub(super) seq: u64,
    /// The highest seq it has ever had.
    pub(super) highest: u64,
    /// By subscription, where it has come to.
    places: Vec<Option<Place>>,
    /// The messages that it has, or was told of by a gap.
    known: BTreeSet<usize>,
    /// The subscriptions that it was told of, and whether they have ended.
    told: BTreeMap<usize, bool>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// It has everything up to here, or got a gap for it.
    up_to: u64,
    gap_told: bool,
}

impl Page {
    /// It has everything that this subscription was to bring up to `last`, whichever did; or it got a gap for it.
    pub(super) fn assert_has(&self, subscription: usize, last: u64, world: &World) {
        let begun = world.subscriptions[subscription].begun;
        self.assert_knows(subscription, begun + 1..=last, world);
    }

    /// It knows what the server has done about its subscriptions.
    pub(super) fn assert_told(&self, world: &World) {
        for (index, it) in world.subscriptions.iter().enumerate() {
            let told = self.told.get(&index).copied();
            if it.live && it.by_server && !world.begins_may_be_missing {
                assert_eq!(told, Some(false), "{index} has begun");
            }
            if it.tells_end && !world.ends_may_be_missing && told.is_some() {
                assert_eq!(told, Some(true), "{index} has ended");
            }
        }
    }

    fn assert_told_before(&self, subscription: usize, live: bool, world: &World) {
        let is_told = self.told.contains_key(&subscription);
        let is_to_know = live && world.subscriptions[subscription].by_server && !world.begins_may_be_missing;
        assert!(is_told || !is_to_know, "something came by {subscription}, of which nothing was told");
    }

    fn assert_knows(&self, subscription: usize, offsets: impl Iterator<Item = u64>, world: &World) {
        for offset in offsets {
            let is_known = self.known.contains(&world.message(subscription, offset));
            assert!(is_known, "not received, and not told of: {offset} of subscription {subscription}");
        }
    }

    fn place(&mut self, subscription: usize, world: &World) -> &mut Place {
        if self.places.len() <= subscription {
            self.places.resize(subscription + 1, None);
        }
        let begun = world.subscriptions[subscription].begun;
        self.places[subscription].get_or_insert(Place { up_to: begun, gap_told: false })
    }

    fn message(&mut self, seq: u64, subscription: usize, offset: u64, live: bool, world: &World) {
        self.assert_told_before(subscription, live, world);
        let fresh = seq > self.highest;
        let gap_first = world.subscriptions[subscription].gap;
        let place = *self.place(subscription, world);
        if !fresh {
            assert!(offset <= place.up_to, "what it had at {seq} it has: {offset} is beyond {place:?}");
            return;
        }
        assert!(offset > place.up_to, "twice: {offset} at {place:?}");
        // What it has unsubscribed from may have holes.
        if live && !world.gaps_may_be_late {
            self.assert_knows(subscription, place.up_to + 1..offset, world);
        }
        if live {
            assert!(place.gap_told || !gap_first, "the gap comes first");
        }
        self.place(subscription, world).up_to = offset;
        self.known.insert(world.message(subscription, offset));
    }

    fn gap(
        &mut self,
        seq: u64,
        subscription: usize,
        range: Option<(u64, u64)>,
        to: u64,
        live: bool,
        world: &World,
    ) {
        self.assert_told_before(subscription, live, world);
        let fresh = seq > self.highest;
        let it = &world.subscriptions[subscription];
        let asked_for = it.gap && range.is_none();
        assert!(asked_for || world.gaps_allowed, "a gap for no reason: {range:?}");
        let place = *self.place(subscription, world);
        match range {
            None => self.place(subscription, world).gap_told = true,
            Some((from, to)) => {
                assert!(!fresh || to > place.up_to, "what it says is missing is not: {range:?} at {place:?}");
                if live && !world.gaps_may_be_late {
                    self.assert_knows(subscription, place.up_to + 1..from, world);
                }
                assert!(!live || place.gap_told || !it.gap, "no range says it all");
            }
        }
        if !world.gaps_allowed {
            // It stands for what was before the subscription.
            return;
        }
        let from = range.map_or(it.begun + 1, |(from, _)| from);
        self.known.extend((from..=to).map(|offset| world.message(subscription, offset)));
        // What it says may be missing may still come.
        let to = range.map_or(0, |(_, to)| to);
        let place = self.place(subscription, world);
        place.up_to = place.up_to.max(to);
    }
}

/// A connection, from the client's side.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: ConnectionId,
    pub(super) kind: ConnectionKind,
    /// Sent by the server.
    pub(super) network: VecDeque<Frame>,
    /// Read by the machine, not yet by the page. The pings in it are answered if they are frames.
    machine: VecDeque<Frame>,
    /// Sent by the client.
    pub(super) to_server: VecDeque<ConnectionInput>,
    /// The last seq the page read here.
    read: u64,
    /// A poll whose answer has arrived.
    pub(super) answered: bool,
    /// A stream on which its client asks for what is new.
    pub(super) holds: bool,
}

impl Link {
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
pub(super) struct Client {
    pub(super) page: Page,
    pub(super) link: Option<Link>,
    /// Its machine answers a ping only after the page has read what came before the ping before: what the server
    /// takes for granted.
    pub(super) gentle: bool,
    /// What it says it has is the highest seq it ever had, not the last.
    pub(super) says_highest: bool,
    /// It never says what it has, and wants nothing twice.
    pub(super) at_most_once: bool,
}

impl Client {
    /// The machine reads one frame from the network.
    pub(super) fn machine_reads(&mut self, world: &World, coverage: &mut Coverage) -> bool {
        let Some(frame) = self.link.as_mut().and_then(|link| link.network.pop_front()) else { return false };
        let kind = self.link.as_ref().map(|link| link.kind);
        if let (Frame::Ping { seq }, Some(ConnectionKind::Stream(Heartbeat::Frame))) = (frame, kind) {
            while self.gentle && self.unread().any(|it| matches!(it, Frame::Ping { .. })) {
                self.page_reads(world, coverage);
            }
            self.say(ConnectionInput::PongFrame { seq });
        }
        self.link.as_mut().expect("it was there").machine.push_back(frame);
        true
    }

    fn unread(&self) -> impl Iterator<Item = &Frame> {
        self.link.iter().flat_map(|link| &link.machine)
    }

    /// The page reads one frame from the machine.
    pub(super) fn page_reads(&mut self, world: &World, coverage: &mut Coverage) -> bool {
        let Some(link) = &mut self.link else { return false };
        let Some(frame) = link.machine.pop_front() else { return false };
        let seq = match frame {
            Frame::Ping { seq } => {
                if link.kind == ConnectionKind::Stream(Heartbeat::Message) {
                    self.say(ConnectionInput::PongMessage { seq });
                }
                return true;
            }
            Frame::Reply => {
                self.ask();
                return true;
            }
            Frame::Notice { subscription, is_end } => {
                self.page.told.insert(subscription, is_end);
                return true;
            }
            Frame::Message { seq, .. } | Frame::Gap { seq, .. } => seq,
        };
        let may_go_back = link.holds && !self.at_most_once;
        assert!(link.read < seq || may_go_back, "seqs rise: {seq} after {}", link.read);
        link.read = seq;
        if seq <= self.page.highest {
            coverage.met("duplicate");
        }
        match frame {
            Frame::Message { subscription, offset, live, .. } => {
                assert!(!self.at_most_once || seq > self.page.highest, "{seq} comes twice");
                self.page.message(seq, subscription, offset, live, world);
            }
            Frame::Gap { subscription, range, to, live, .. } => {
                self.page.gap(seq, subscription, range, to, live, world);
            }
            Frame::Ping { .. } | Frame::Reply | Frame::Notice { .. } => unreachable!("returned above"),
        }
        self.page.highest = self.page.highest.max(seq);
        self.page.seq = if self.says_highest { self.page.highest } else { seq };
        true
    }

    /// Asks for what is new, on a stream.
    pub(super) fn ask(&mut self) {
        let seq = (!self.at_most_once).then_some(self.page.seq);
        self.say(ConnectionInput::Hold { hold: HOLD, seq });
    }

    pub(super) fn say(&mut self, input: ConnectionInput) {
        if let Some(link) = &mut self.link {
            link.to_server.push_back(input);
        }
    }

    /// The connection is over. What its machine has read, the page gets or loses. True if the server may take some of what
    /// it lost for had: two pings after it were answered.
    pub(super) fn cut(
        &mut self,
        page_gets_all: bool,
        world: &World,
        coverage: &mut Coverage,
    ) -> Option<(Link, bool)> {
        while page_gets_all && self.page_reads(world, coverage) {}
        let link = self.link.take()?;
        let answered = link.machine.iter().filter(|it| matches!(it, Frame::Ping { .. })).count();
        let lost = answered >= 2 && link.kind == ConnectionKind::Stream(Heartbeat::Frame);
        assert!(!lost || !self.gentle);
        Some((link, lost))
    }
}
