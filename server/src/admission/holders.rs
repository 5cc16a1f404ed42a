//! How much each holds of something that is limited: when it runs out, the one that holds most gives first, and gives the oldest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::network;

/// Whoever something is held for: a user, or where nobody is named, an address (IPv6: a network).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    User(Arc<str>),
    Address(IpAddr),
    /// The user of the admin API. What the operator holds is given last.
    Operator,
}

impl Holder {
    pub(crate) fn new(user: Option<Arc<str>>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::Address(network(address)), Self::User)
    }

    /// As it is written down.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::User(user) => format!("user {user}"),
            Self::Address(address) => format!("address {address}"),
            Self::Operator => "operator".to_owned(),
        }
    }

    /// The reverse of [`Self::to_text`].
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("user", user)) => Some(Self::User(user.into())),
            Some(("address", address)) => address.parse().ok().map(Self::Address),
            _ => (text == "operator").then_some(Self::Operator),
        }
    }

    /// By how much a holder of this much gives before others.
    pub(crate) fn rank<N: Default>(&self, amount: N) -> N {
        if *self == Self::Operator { N::default() } else { amount }
    }
}

/// Things by holder, each with the number that it was given when it was added: the smaller, the older.
#[derive(Debug)]
pub(crate) struct Holders<T> {
    held: HashMap<Holder, BTreeMap<u64, T>>,
    /// How many each holds, as far as it matters.
    counts: BTreeSet<(usize, Holder)>,
    next: u64,
}

impl<T> Default for Holders<T> {
    fn default() -> Self {
        Self { held: HashMap::new(), counts: BTreeSet::new(), next: 0 }
    }
}

impl<T> Holders<T> {
    /// Returns its number.
    pub(crate) fn add(&mut self, holder: &Holder, thing: T) -> u64 {
        let number = self.next;
        self.next += 1;
        let held = self.held.entry(holder.clone()).or_default();
        held.insert(number, thing);
        let count = held.len();
        self.recount(holder, count - 1, count);
        number
    }

    /// Nothing happens if it is not there any more.
    pub(crate) fn remove(&mut self, holder: &Holder, number: u64) -> Option<T> {
        let held = self.held.get_mut(holder)?;
        let thing = held.remove(&number)?;
        let count = held.len();
        if count == 0 {
            self.held.remove(holder);
        }
        self.recount(holder, count + 1, count);
        Some(thing)
    }

    /// The oldest of the one who holds most, which is the next to be [taken](Self::take_from_most).
    pub(crate) fn oldest_of_most(&self) -> Option<&T> {
        let (_, holder) = self.counts.last()?;
        self.held.get(holder)?.first_key_value().map(|(_, thing)| thing)
    }

    /// The oldest of the one who holds most.
    pub(crate) fn take_from_most(&mut self) -> Option<T> {
        let (_, holder) = self.counts.last()?.clone();
        self.take_from(&holder)
    }

    /// The oldest of this one.
    pub(crate) fn take_from(&mut self, holder: &Holder) -> Option<T> {
        let oldest = *self.held.get(holder)?.first_key_value()?.0;
        self.remove(holder, oldest)
    }

    fn recount(&mut self, holder: &Holder, before: usize, after: usize) {
        self.counts.remove(&(holder.rank(before), holder.clone()));
        if after > 0 {
            self.counts.insert((holder.rank(after), holder.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Holder {
        Holder::new(None, [10, 0, 0, last].into())
    }

    #[test]
    fn the_one_with_most_gives_the_oldest() {
        let mut holders = Holders::default();
        let user = Holder::new(Some("alice".into()), [10, 0, 0, 1].into());
        holders.add(&user, 1);
        for thing in 2..=4 {
            holders.add(&address(1), thing);
        }
        holders.add(&user, 5);
        assert_eq!(holders.take_from_most(), Some(2));
        // Both hold two.
        let one_each = [holders.take_from_most(), holders.take_from_most()];
        assert!(one_each.contains(&Some(1)) && one_each.contains(&Some(3)), "{one_each:?}");
        let rest = [holders.take_from_most(), holders.take_from_most()];
        assert!(rest.contains(&Some(4)) && rest.contains(&Some(5)), "{rest:?}");
        assert_eq!(holders.take_from_most(), None);
        assert!(holders.held.is_empty() && holders.counts.is_empty());
    }

    #[test]
    fn what_was_removed_is_not_given() {
        let mut holders = Holders::default();
        let numbers: Vec<_> = (0..3).map(|thing| holders.add(&address(1), thing)).collect();
        assert_eq!(holders.remove(&address(1), numbers[0]), Some(0));
        assert_eq!(holders.remove(&address(1), numbers[0]), None);
        assert_eq!(holders.remove(&address(2), numbers[1]), None);
        assert_eq!(holders.take_from_most(), Some(1));
    }

    #[test]
    fn the_operator_gives_last() {
        let mut holders = Holders::default();
        (0..3).for_each(|thing| _ = holders.add(&Holder::Operator, thing));
        holders.add(&address(1), 3);
        let taken: Vec<_> = std::iter::from_fn(|| holders.take_from_most()).collect();
        assert_eq!(taken, [3, 0, 1, 2]);
        assert!(holders.counts.is_empty());
    }

    #[test]
    fn holders_are_read_as_they_were_written() {
        let user = Holder::User("alice in a house".into());
        for holder in [user, address(7), Holder::Address([1; 16].into()), Holder::Operator] {
            assert_eq!(Holder::of_text(&holder.to_text()), Some(holder));
        }
        for text in ["", "user", "nobody", "address x", "operator "] {
            assert_eq!(Holder::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_network_is_one_holder() {
        let six = |text: &str| Holder::new(None, text.parse().expect("an address"));
        assert_eq!(six("2001:db8::1"), six("2001:db8::2"));
        assert_ne!(six("2001:db8::1"), six("2001:db8:0:1::1"));
    }
}
