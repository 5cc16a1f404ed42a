use std::borrow::Cow;

use encke_broker::engine::UserSessions;
use encke_core::dialect::{Member, UserPresence};
use serde::Serialize;

use super::call::ApiCall;
use super::channels::name_of;
use crate::http::reply::json;
use crate::http::{ApiError, Reply};

#[derive(Serialize)]
struct PresenceResponse<'a> {
    channel: &'a str,
    total: usize,
    present: Vec<Member<'a>>,
    /// Users of the sessions listed on this page.
    users: Vec<UserPresence<'a>>,
    next_cursor: Option<u64>,
    /// Servers that share the channel and did not report their subscribers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    incomplete: &'a [String],
}

/// `GET /api/channels/{name}/presence?limit=&cursor=`
pub(super) async fn show(call: ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let (limit, cursor) = (query.limit()?, query.number("cursor")?.unwrap_or(0));
    let name = name_of(&call)?;
    let presence = call.context.client.logs.engine.presence(&name, cursor, limit).await?;
    let user = |UserSessions { user, sessions, connections }| UserPresence {
        user: Cow::Borrowed(user),
        sessions,
        connections,
    };
    let present = presence.members.iter().map(|member| Member {
        session: Some(Cow::Borrowed(&*member.id)),
        user: member.user.as_deref().map(Cow::Borrowed),
        phase: member.phase.into(),
    });
    Ok(json(&PresenceResponse {
        channel: name.as_str(),
        total: presence.total,
        present: present.collect(),
        users: presence.users().into_iter().map(user).collect(),
        next_cursor: presence.next_cursor,
        incomplete: &presence.incomplete,
    }))
}
