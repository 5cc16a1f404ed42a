//! The crowd as subscribers of one channel: who has had which message, and when.

use std::cell::{Cell, RefCell};

use tokio::time::Instant;

pub(crate) const CHANNEL: &str = "bench";

/// What each client says after its hello.
pub(crate) const SUBSCRIBE: &[u8] = br#"{"id":1,"subscribe":{"channel":"bench"}}"#;

const SUBSCRIBED: &[u8] = br#"{"reply":{"id":1,"ok":"#;
const REFUSED: &[u8] = br#"{"reply":{"id":1,"error":"#;
const MESSAGE: &[u8] = br#"{"message":{"seq":"#;
const BEFORE_OFFSET: &[u8] = br#","channel":"bench","offset":"#;

/// What all clients together have had of messages with the offsets 1, 2, ...
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) subscribed: Cell<u32>,
    /// Each message once a client, however often it came.
    pub(crate) received: Cell<u64>,
    pub(crate) duplicated: Cell<u64>,
    /// For the first time, but after a later one.
    pub(crate) misordered: Cell<u64>,
    /// Texts that are no message that was published: gaps, errors.
    pub(crate) other: Cell<u64>,
    /// When each message reached the last client so far, by offset - 1.
    last: RefCell<Vec<Option<Instant>>>,
}

/// The server does not let a client subscribe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// What one client has had: everything below `next` but what it missed.
#[derive(Debug)]
pub(crate) struct Ear {
    next: u64,
    missed: Vec<u64>,
}

impl Default for Ear {
    fn default() -> Self {
        Self { next: 1, missed: Vec::new() }
    }
}

impl Audience {
    pub(crate) fn of(messages: u32) -> Self {
        Self {
            subscribed: Cell::new(0),
            received: Cell::new(0),
            duplicated: Cell::new(0),
            misordered: Cell::new(0),
            other: Cell::new(0),
            last: RefCell::new(vec![None; messages as usize]),
        }
    }

    /// When each message reached the last client, by offset - 1.
    pub(crate) fn last(&self) -> Vec<Option<Instant>> {
        self.last.borrow().clone()
    }

    /// Takes in a text that one client has read.
    pub(crate) fn hear(&self, text: &[u8], ear: &mut Ear) -> Result<(), Refused> {
        match offset_of(text) {
            Some(offset) => self.message(offset, ear),
            None if text.starts_with(SUBSCRIBED) => self.subscribed.set(self.subscribed.get() + 1),
            None if text.starts_with(REFUSED) => return Err(Refused),
            None => increment(&self.other),
        }
        Ok(())
    }

    fn message(&self, offset: u64, ear: &mut Ear) {
        let mut last = self.last.borrow_mut();
        let index = usize::try_from(offset).ok().and_then(|offset| offset.checked_sub(1));
        let Some(last) = index.and_then(|index| last.get_mut(index)) else {
            return increment(&self.other);
        };
        if offset >= ear.next {
            ear.missed.extend(ear.next..offset);
            ear.next = offset + 1;
        } else if let Some(index) = ear.missed.iter().position(|missed| *missed == offset) {
            ear.missed.swap_remove(index);
            increment(&self.misordered);
        } else {
            return increment(&self.duplicated);
        }
        increment(&self.received);
        *last = Some(Instant::now());
    }
}

fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// The offset of a message of our channel.
fn offset_of(text: &[u8]) -> Option<u64> {
    let (_, rest) = take_number(text.strip_prefix(MESSAGE)?);
    let (offset, _) = take_number(rest.strip_prefix(BEFORE_OFFSET)?);
    Some(offset)
}

fn take_number(text: &[u8]) -> (u64, &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits
        .iter()
        .fold(0_u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    (number, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Received, duplicated, misordered and other after these offsets.
    fn counts(offsets: &[u64]) -> [u64; 4] {
        let (audience, mut ear) = (Audience::of(5), Ear::default());
        for offset in offsets {
            let text = format!(r#"{{"message":{{"seq":7,"channel":"bench","offset":{offset},"data":"x"}}}}"#);
            assert_eq!(audience.hear(text.as_bytes(), &mut ear), Ok(()));
        }
        [&audience.received, &audience.duplicated, &audience.misordered, &audience.other].map(Cell::get)
    }

    #[test]
    fn offsets_tell_what_became_of_each_message() {
        assert_eq!(counts(&[1, 2, 3, 4, 5]), [5, 0, 0, 0]);
        assert_eq!(counts(&[1, 2, 4, 5]), [4, 0, 0, 0]);
        assert_eq!(counts(&[1, 1, 2, 3, 2]), [3, 2, 0, 0]);
        assert_eq!(counts(&[2, 1, 3, 1]), [3, 1, 1, 0]);
        assert_eq!(counts(&[0, 6]), [0, 0, 0, 2]);
    }

    #[test]
    fn the_reply_to_a_subscription_is_known() {
        let (audience, mut ear) = (Audience::of(1), Ear::default());
        let mut hear = |text: &str| audience.hear(text.as_bytes(), &mut ear);
        assert_eq!(hear(r#"{"reply":{"id":1,"ok":{"channel":"bench","epoch":"e","offset":0}}}"#), Ok(()));
        assert_eq!(hear(r#"{"reply":{"id":1,"error":{"code":"x","message":""}}}"#), Err(Refused));
        assert_eq!(hear(r#"{"gap":{"seq":1,"channel":"bench","epoch":"e"}}"#), Ok(()));
        assert_eq!((audience.subscribed.get(), audience.other.get()), (1, 1));
    }
}
