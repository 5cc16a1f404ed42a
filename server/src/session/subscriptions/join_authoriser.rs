use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::dialect::CommandError;

use crate::session::table::SessionCell;

/// Asks the backend whether a session may join a channel of its token. A trait, because the rule is implemented in
/// `commands`, on which `session` must not depend.
pub(crate) trait JoinAuthoriser: Send + Sync {
    /// Decides whether a session may join a channel. Returns the channel to join, which may be another one. The
    /// request to the backend counts against `owner`.
    fn authorise(
        self: Arc<Self>,
        session: &SessionCell,
        owner: QuotaOwner,
        name: &ChannelName,
    ) -> EngineResponse<Result<ChannelName, CommandError>>;
}
