use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::channels::{name_of, parse_number};
use super::routes::ApiCall;
use super::{DEFAULT_LIMIT, parse_limit, unknown_parameter};
use crate::channel::{ChannelName, Member, MemberPhase};
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
pub(super) fn show(call: &ApiCall<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let asked = PresenceQuery::parse(call);
    let engine = Arc::clone(&call.context.client.logs.engine);
    async move {
        let PresenceQuery { name, limit, cursor } = asked?;
        let presence = engine.presence(&name, cursor, limit).await?;
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
    .boxed()
}

struct PresenceQuery {
    name: ChannelName,
    limit: usize,
    cursor: u64,
}

impl PresenceQuery {
    fn parse(call: &ApiCall<'_>) -> Result<Self, ApiError> {
        let (mut limit, mut cursor) = (DEFAULT_LIMIT, 0);
        for (name, value) in form_urlencoded::parse(call.query.as_bytes()) {
            match &*name {
                "limit" => limit = parse_limit(&value)?,
                "cursor" => cursor = parse_number("cursor", &value)?,
                _ => return Err(unknown_parameter(&name)),
            }
        }
        Ok(Self { name: name_of(call)?, limit, cursor })
    }
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
