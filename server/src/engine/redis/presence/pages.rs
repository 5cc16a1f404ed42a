//! One page of those who follow a channel, from what several servers have. Each counts its own by an index; all together are in the order of
//! these, and of the servers' names. So a cursor is an index and a server's place among all.

use crate::channel::Present;
use crate::engine::Presence;

/// Servers that share channels. Presence of more is not told.
pub(super) const MOST_SERVERS: usize = 1024;

/// A place in the order of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    index: usize,
    server: usize,
}

impl Place {
    fn of_cursor(cursor: u64) -> Self {
        let [index, server] = [cursor / MOST_SERVERS as u64, cursor % MOST_SERVERS as u64];
        let small = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self { index: small(index), server: small(server) }
    }

    fn cursor(self) -> u64 {
        (self.index as u64).saturating_mul(MOST_SERVERS as u64).saturating_add(self.server as u64)
    }
}

/// From which index on each server is asked, for a page that begins there.
pub(super) fn first_index(cursor: u64) -> usize {
    Place::of_cursor(cursor).index
}

/// How many each is asked for. One may be left out at the beginning.
pub(super) fn asked_for(limit: usize) -> usize {
    limit.saturating_add(1)
}

/// What the servers have said, each by its name, as one page.
pub(super) fn merge(mut servers: Vec<(String, Present)>, cursor: u64, limit: usize) -> Presence {
    servers.sort_by(|(one, _), (other, _)| one.cmp(other));
    servers.truncate(MOST_SERVERS);
    let begin = Place::of_cursor(cursor);
    let total = servers.iter().fold(0_usize, |sum, (_, present)| sum.saturating_add(present.total));
    let rest = servers.iter().enumerate();
    // What one has not told may come before what others have.
    let mut end =
        rest.filter_map(|(server, (_, present))| Some(Place { index: present.next?, server })).min();
    let mut members = Vec::new();
    for (server, (_, present)) in servers.into_iter().enumerate() {
        let placed = present.members.into_iter().map(|(index, member)| (Place { index, server }, member));
        members.extend(placed.filter(|(place, _)| *place >= begin && end.is_none_or(|end| *place < end)));
    }
    members.sort_by_key(|(place, _)| *place);
    if let Some((first_left_out, _)) = members.get(limit) {
        end = Some(*first_left_out);
    }
    members.truncate(limit);
    Presence {
        total,
        members: members.into_iter().map(|(_, member)| member).collect(),
        next_cursor: end.map(Place::cursor),
        incomplete: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Member, MemberPhase};

    /// A server with subscribers at these indices, asked from `from` on for so many.
    fn asked(name: &str, all: &[usize], from: usize, limit: usize) -> (String, Present) {
        let mut rest = all.iter().copied().filter(|index| *index >= from);
        let member = |index| {
            let id = format!("{name}{index}");
            (index, Member { id, user: None, phase: MemberPhase::Attached })
        };
        let members = rest.by_ref().take(limit).map(member).collect();
        (name.to_owned(), Present { total: all.len(), members, next: rest.next() })
    }

    #[test]
    fn everyone_comes_once_whatever_the_page() {
        let servers: [(&str, &[usize]); 3] = [("b", &[0, 1, 2, 9]), ("a", &[0, 5]), ("c", &[])];
        for limit in 1..8 {
            let (mut seen, mut cursor, mut pages) = (Vec::new(), 0, 0);
            loop {
                let (from, each) = (first_index(cursor), asked_for(limit));
                let said = servers.iter().map(|(name, all)| asked(name, all, from, each)).collect();
                let page = merge(said, cursor, limit);
                assert_eq!(page.total, 6);
                assert!((1..=limit).contains(&page.members.len()), "{page:?}");
                seen.extend(page.members.into_iter().map(|member| member.id));
                pages += 1;
                match page.next_cursor {
                    Some(next) => cursor = next,
                    None => break,
                }
            }
            assert_eq!(seen, ["a0", "b0", "b1", "b2", "a5", "b9"], "{limit} at a time");
            assert_eq!(pages, 6_usize.div_ceil(limit));
        }
    }

    #[test]
    fn a_cursor_beyond_all_finds_nobody() {
        let page = merge(vec![asked("a", &[0, 1], first_index(u64::MAX), 2)], u64::MAX, 1);
        assert_eq!((page.total, page.members.len(), page.next_cursor), (2, 0, None));
    }
}
