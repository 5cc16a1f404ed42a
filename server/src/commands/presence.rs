use encke_broker::engine::{Presence, UserSessions};
use encke_core::dialect::{Member, Success, UserPresence};

use super::errors::engine_failed;
use super::{CommandContext, StartedCommand};
use crate::auth::Permission;

/// Maximum number of members listed in a presence response, which also states their total number.
const MAX_MEMBERS: usize = 256;

/// Lists the subscribers of a channel.
pub(super) fn presence(context: CommandContext<'_>, channel: &str) -> StartedCommand {
    let name = context.allowed_channel(Permission::Presence, channel)?;
    let logs = &context.services.logs;
    // Join and leave notices identify members by their sessions.
    let is_named = logs.channels.namespaces().rules_of(name.as_str()).join_leave;
    Ok(logs.engine.presence(&name, 0, MAX_MEMBERS).map(move |presence| {
        let presence = presence.map_err(engine_failed)?;
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
        Ok(Success::Presence {
            channel: name.as_str().to_owned().into(),
            total,
            members: members.collect(),
            users,
            incomplete: incomplete.into_iter().map(Into::into).collect(),
        })
    }))
}
