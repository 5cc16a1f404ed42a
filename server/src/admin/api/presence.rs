use serde::Serialize;

use super::call::ApiCall;
use super::channels::name_of;
use crate::channel::{Member, MemberPhase};
use crate::engine::UserSessions;
use crate::http::reply::json;
use crate::http::{ApiError, Reply};

#[derive(Serialize)]
struct PresenceResponse<'a> {
    channel: &'a str,
    total: usize,
    present: Vec<PresentSession>,
    /// Users of the sessions listed on this page.
    users: Vec<PresentUser>,
    next_cursor: Option<u64>,
    /// Servers that share the channel and did not report their subscribers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    incomplete: Vec<String>,
}

#[derive(Serialize)]
struct PresentSession {
    session: String,
    user: Option<String>,
    phase: MemberPhase,
}

#[derive(Serialize)]
struct PresentUser {
    user: String,
    sessions: usize,
    connections: usize,
}

/// `GET /api/channels/{name}/presence?limit=&cursor=`
pub(super) async fn show(call: ApiCall) -> Result<Reply, ApiError> {
    let query = call.query(&["limit", "cursor"])?;
    let (limit, cursor) = (query.limit()?, query.number("cursor")?.unwrap_or(0));
    let name = name_of(&call)?;
    let presence = call.context.client.logs.engine.presence(&name, cursor, limit).await?;
    let users = presence.users().into_iter().map(PresentUser::from).collect();
    let present = presence.members.into_iter().map(PresentSession::from);
    Ok(json(&PresenceResponse {
        channel: name.as_str(),
        total: presence.total,
        present: present.collect(),
        users,
        next_cursor: presence.next_cursor,
        incomplete: presence.incomplete,
    }))
}

impl From<UserSessions<'_>> for PresentUser {
    fn from(UserSessions { user, sessions, connections }: UserSessions<'_>) -> Self {
        Self { user: user.to_owned(), sessions, connections }
    }
}

impl From<Member> for PresentSession {
    fn from(Member { id, user, phase }: Member) -> Self {
        Self { session: id, user, phase }
    }
}
