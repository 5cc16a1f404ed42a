use std::sync::Arc;

use encke_broker::engine::SharedUsers;

use crate::session::UserSink;

/// Reports users to Redis, which creates the events of all servers.
pub(crate) struct SharedUserSink(pub(crate) Arc<SharedUsers>);

impl UserSink for SharedUserSink {
    fn online(&self, user: &Arc<str>) {
        self.0.set(user, true);
    }

    fn offline(&self, user: &Arc<str>) {
        self.0.set(user, false);
    }

    fn restored(&self, user: &Arc<str>) {
        self.0.set(user, true);
    }

    fn name(&self) -> Option<String> {
        self.0.name()
    }

    fn continue_from(&self, name: String) {
        self.0.continue_from(name);
    }
}
