//! Merges the subscribers of several servers into one page. Each server identifies its own subscribers by an
//! index; the merged order is by index, then by server name. A cursor therefore consists of an index and the
//! server's rank.

use crate::channel::PresencePage;
use crate::engine::presence::Presence;

/// Maximum number of servers that share channels. Presence on additional servers is not reported.
pub(super) const MAX_SERVERS: usize = 1024;

/// Position in the merged order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PagePosition {
    index: usize,
    server: usize,
}

impl PagePosition {
    fn of_cursor(cursor: u64) -> Self {
        let [index, server] = [cursor / MAX_SERVERS as u64, cursor % MAX_SERVERS as u64];
        let small = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self { index: small(index), server: small(server) }
    }

    fn cursor(self) -> u64 {
        (self.index as u64).saturating_mul(MAX_SERVERS as u64).saturating_add(self.server as u64)
    }
}

/// Index at which every server starts, for a page that starts at `cursor`.
pub(super) fn first_index(cursor: u64) -> usize {
    PagePosition::of_cursor(cursor).index
}

/// Number of subscribers to request from each server: one more than `limit`, because the first one may
/// precede the cursor.
pub(super) fn limit_per_server(limit: usize) -> usize {
    limit.saturating_add(1)
}

/// Merges the replies of the servers, each with its name, into one page.
pub(super) fn merge(mut servers: Vec<(String, PresencePage)>, cursor: u64, limit: usize) -> Presence {
    servers.sort_by(|(one, _), (other, _)| one.cmp(other));
    servers.truncate(MAX_SERVERS);
    let begin = PagePosition::of_cursor(cursor);
    let total = servers.iter().fold(0_usize, |sum, (_, present)| sum.saturating_add(present.total));
    let rest = servers.iter().enumerate();
    // End the page where a server's reply ends: its next subscribers may precede those of other servers.
    let mut end =
        rest.filter_map(|(server, (_, present))| Some(PagePosition { index: present.next?, server })).min();
    let mut members = Vec::new();
    for (server, (_, present)) in servers.into_iter().enumerate() {
        let placed =
            present.members.into_iter().map(|(index, member)| (PagePosition { index, server }, member));
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
        next_cursor: end.map(PagePosition::cursor),
        incomplete: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Member, MemberPhase};

    /// Reply of a server with subscribers at the indices `all`, to a query for `limit` of them from index
    /// `from` on.
    fn reply(name: &str, all: &[usize], from: usize, limit: usize) -> (String, PresencePage) {
        let mut rest = all.iter().copied().filter(|index| *index >= from);
        let member = |index| {
            let id = format!("{name}{index}");
            (index, Member { id, user: None, phase: MemberPhase::Attached })
        };
        let members = rest.by_ref().take(limit).map(member).collect();
        (name.to_owned(), PresencePage { total: all.len(), members, next: rest.next() })
    }

    #[test]
    fn pages_contain_each_member_once() {
        let servers: [(&str, &[usize]); 3] = [("b", &[0, 1, 2, 9]), ("a", &[0, 5]), ("c", &[])];
        for limit in 1..8 {
            let (mut seen, mut cursor, mut pages) = (Vec::new(), 0, 0);
            loop {
                let (from, limit_each) = (first_index(cursor), limit_per_server(limit));
                let replies = servers.iter().map(|(name, all)| reply(name, all, from, limit_each)).collect();
                let page = merge(replies, cursor, limit);
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
    fn cursor_past_the_end_returns_no_members() {
        let page = merge(vec![reply("a", &[0, 1], first_index(u64::MAX), 2)], u64::MAX, 1);
        assert_eq!((page.total, page.members.len(), page.next_cursor), (2, 0, None));
    }
}
