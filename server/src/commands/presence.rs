use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::{EngineResponse, Presence, UserSessions};
use encke_core::dialect::{Member, SharedJson, Success, UserPresence};
use futures_util::FutureExt;

use super::errors::engine_failed;
use super::{CommandContext, CommandOutcome, StartedCommand};
use crate::auth::Permission;
use crate::client::Services;

/// Maximum number of members listed in a presence response, which also states their total number.
const MAX_MEMBERS: usize = 256;

/// Maximum number of bytes of the lists of members and users. Names may have 255 bytes, and a client can ask
/// for far more than it reads.
const MAX_LIST_BYTES: usize = 40 * 1024;

/// Upper bounds for a member and its user in these lists, except for the user's name.
const BYTES_WITH_SESSION: usize = 120;
const BYTES_WITHOUT_SESSION: usize = 80;

/// Lists the subscribers of a channel, if the backend allows the client to subscribe to it.
pub(super) fn presence(context: CommandContext<'_>, channel: &str) -> StartedCommand {
    let name = context.allowed_channel(Permission::Presence, channel)?;
    let approved = match context.approved_channel(Permission::Presence, &name) {
        EngineResponse::Ready(name) => return Ok(list(context.services, &name?)),
        EngineResponse::Pending(approved) => approved,
    };
    let services = Arc::clone(context.services);
    let listed = async move { list(&services, &approved.await?).into_future().await };
    Ok(EngineResponse::Pending(listed.boxed()))
}

fn list(services: &Services, name: &ChannelName) -> EngineResponse<CommandOutcome> {
    let channels = &services.logs.channels;
    let changes = channels.get(name.as_str()).map_or(0, |channel| channel.subscriber_changes());
    // Join and leave notices identify members by their sessions.
    let is_named = channels.namespaces().rules_of(name.as_str()).join_leave;
    let reply = services.presence_replies.get_or(name, changes, services.timeouts.clock().now(), || {
        let (name, presence) = (name.clone(), services.logs.engine.presence(name, 0, MAX_MEMBERS));
        presence.map(move |presence| Ok(render(&name, presence.map_err(engine_failed)?, is_named)))
    });
    reply.map(|reply| reply.map(Success::Shared))
}

fn render(name: &ChannelName, mut presence: Presence, is_named: bool) -> SharedJson {
    let mut bytes = 0;
    let fits = presence.members.iter().take_while(|member| {
        let fixed = if is_named { BYTES_WITH_SESSION } else { BYTES_WITHOUT_SESSION };
        bytes += fixed + 2 * json_len(member.user.as_deref());
        bytes <= MAX_LIST_BYTES
    });
    let fits = fits.count();
    let truncated = fits < presence.members.len() || presence.next_cursor.is_some();
    presence.members.truncate(fits);
    let users = presence.users().into_iter().map(|UserSessions { user, sessions, connections }| {
        UserPresence { user: user.to_owned().into(), sessions, connections }
    });
    let users = users.collect();
    let Presence { total, members, incomplete, .. } = presence;
    let members = members.into_iter().map(|member| Member {
        session: is_named.then(|| member.id.into()),
        user: member.user.map(Into::into),
        phase: member.phase.into(),
    });
    SharedJson::new(&Success::Presence {
        channel: name.as_str().into(),
        total,
        members: members.collect(),
        users,
        truncated,
        incomplete: incomplete.into_iter().map(Into::into).collect(),
    })
}

/// Length of a user's name as JSON.
fn json_len(user: Option<&str>) -> usize {
    user.map_or(4, |user| serde_json::to_string(user).map_or(usize::MAX / 4, |json| json.len()))
}

#[cfg(test)]
mod tests {
    use encke_broker::channel::{self as broker, MemberPhase};

    use super::*;

    /// Control characters, which take the most space, are not accepted in names.
    #[test]
    fn replies_are_limited_in_size() {
        let name = ChannelName::new("news", 255).expect("a name");
        for (user, is_named, listed) in
            [("alice", false, 256), ("alice", true, 256), (&*"\"".repeat(255), true, 35)]
        {
            let member = |number| broker::Member {
                id: format!("s_{number:022}"),
                user: Some(user.to_owned()),
                phase: MemberPhase::Suspended,
            };
            let presence =
                Presence { total: 256, members: (0..256).map(member).collect(), ..Presence::default() };
            let reply = serde_json::to_string(&render(&name, presence, is_named)).expect("JSON");
            assert!(reply.len() <= MAX_LIST_BYTES + 200, "{}", reply.len());
            assert_eq!(reply.matches("suspended").count(), listed, "{user}");
            assert_eq!(reply.contains(r#""truncated":true"#), listed < 256, "{user}");
        }
    }
}
