//! Runs a subscriber.

use std::rc::Rc;

use super::{Restart, RestartChannel};
use crate::client::ClientConnection;
use crate::scenario::channel::Subscriber;
use crate::scenario::{OpenedConnection, Setup};
use crate::transport::websocket::ConnectionEnd;

impl Restart {
    /// Subscribes to the channel, and reconnects whenever the connection ends, until the task is dropped.
    pub(super) async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        channel: Rc<RestartChannel>,
        opened: OpenedConnection,
    ) {
        let RestartChannel { subscribers, round, .. } = &*channel;
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if !subscribers.join(&setup, round, &mut connection, true).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket, true);
        loop {
            let end = subscribers.listen(round, &mut connection, &mut subscriber).await;
            drop(connection);
            // Boxed because a task is as large as its largest state, for as long as it lives.
            let back = Box::pin(self.resume_or_subscribe(&setup, &channel, end, &mut subscriber)).await;
            let Some(back) = back else { return };
            connection = back;
        }
    }

    /// Resumes the session, or subscribes in the new session if the old one was not recovered.
    async fn resume_or_subscribe(
        &self,
        setup: &Rc<Setup>,
        channel: &RestartChannel,
        end: ConnectionEnd,
        subscriber: &mut Subscriber,
    ) -> Option<ClientConnection> {
        let retry = subscriber.retry.take();
        let OpenedConnection { mut connection, greeting, .. } =
            self.reconnect(setup, end, &subscriber.ticket, retry).await;
        if greeting.recovered {
            channel.subscribers.check_greeting(subscriber, &greeting);
            return Some(connection);
        }
        subscriber.begin_session(greeting.ticket);
        channel.subscribers.subscribe(&mut connection, setup).await.then_some(connection)
    }
}
