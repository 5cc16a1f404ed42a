//! The life of a subscriber.

use std::rc::Rc;

use super::{Channel, Restart};
use crate::client::Connection;
use crate::scenario::channel::Subscriber;
use crate::scenario::{Opened, Setup};
use crate::transport::websocket::End;

impl Restart {
    /// Follows the channel as long as it is awaited.
    pub(super) async fn follow(self: Rc<Self>, setup: Rc<Setup>, channel: Rc<Channel>, opened: Opened) {
        let Channel { subscribers, round, .. } = &*channel;
        let Opened { mut connection, greeting, .. } = opened;
        if !subscribers.join(&setup, round, &mut connection, true).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket, true);
        loop {
            let end = subscribers.listen(round, &mut connection, &mut subscriber).await;
            drop(connection);
            // Boxed, for a task is as large as what it may hold at once, for all its life.
            let back = Box::pin(self.go_on(&setup, &channel, end, &mut subscriber)).await;
            let Some(back) = back else { return };
            connection = back;
        }
    }

    /// Comes back to the session, or else subscribes in the new one.
    async fn go_on(
        &self,
        setup: &Rc<Setup>,
        channel: &Channel,
        end: End,
        subscriber: &mut Subscriber,
    ) -> Option<Connection> {
        let retry = subscriber.retry.take();
        let Opened { mut connection, greeting, .. } =
            self.come_back(setup, end, &subscriber.ticket, retry).await;
        if greeting.recovered {
            channel.subscribers.check_greeting(subscriber, &greeting);
            return Some(connection);
        }
        subscriber.begin(greeting.ticket);
        channel.subscribers.subscribe(&mut connection, setup).await.then_some(connection)
    }
}
