use std::sync::Arc;
use std::time::Duration;

use encke_base::locks::Mutex;
use tokio::sync::Notify;

use super::event::{UserEvent, UserEventSink};
use super::registration::{Changes, Registration};

/// Users that are online on this server, and their registration in Redis.
#[derive(Debug)]
pub struct SharedUsers {
    state: Mutex<SharedState>,
    /// Notified when there is something to send, and when there is a connection.
    pub(super) changed: Notify,
    settled: Notify,
    sink: Arc<dyn UserEventSink>,
    /// How long the users of this server stay online after it has left, unless the next process takes them over.
    linger: Duration,
}

#[derive(Debug, Default)]
struct SharedState {
    registration: Registration,
    /// Name under which the users are registered, once there is one.
    name: Option<RegisteredName>,
    /// Number of names so far.
    names: u64,
    /// Names to give up once all users are registered under the present one.
    given_up: Vec<String>,
    /// Whether Redis has more users to unregister.
    has_more: bool,
    /// Whether the reply to a call is outstanding.
    is_calling: bool,
    is_leaving: bool,
}

/// Name of this server in Redis, and its calls.
#[derive(Clone, Debug)]
pub(super) struct RegisteredName {
    pub(super) name: String,
    /// Generation of the data set in which the name was registered.
    pub(super) generation: u64,
    /// Number of the last call.
    pub(super) calls: u64,
    /// Number of the last call whose reply has arrived.
    pub(super) acknowledged: u64,
}

/// Arguments of a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) number: u64,
    /// `None` for the first call of a name.
    pub(super) acknowledged: Option<u64>,
    pub(super) given_up: Option<String>,
    pub(super) changes: Changes,
}

impl SharedUsers {
    /// `linger` is how long users stay online after a shutdown that preserves their sessions.
    pub fn new(sink: Arc<dyn UserEventSink>, linger: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            settled: Notify::new(),
            sink,
            linger,
        })
    }

    /// Records that a user is online or offline on this server.
    pub fn set(&self, user: &Arc<str>, is_online: bool) {
        let mut state = self.state.lock();
        state.registration.set(user, is_online);
        self.changed.notify_one();
        self.notify_if_settled(&state);
    }

    /// Wakes the task, because there is a connection.
    pub(in crate::engine::redis) fn connected(&self) {
        self.changed.notify_one();
    }

    /// Returns the name under which the users are registered, for the next process.
    pub fn name(&self) -> Option<String> {
        self.state.lock().name.as_ref().map(|name| name.name.clone())
    }

    /// Gives up the name of the previous process once the restored users are registered.
    pub fn continue_from(&self, name: String) {
        self.state.lock().given_up.push(name);
    }

    /// Waits until Redis knows all changes.
    pub async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.state.lock().is_settled() {
                return;
            }
            settled.await;
        }
    }

    fn notify_if_settled(&self, state: &SharedState) {
        if state.is_settled() {
            self.settled.notify_waiters();
        }
    }

    /// Whether there is something to send.
    pub(super) fn has_work(&self) -> bool {
        let state = self.state.lock();
        !state.registration.is_sent() || !state.given_up.is_empty() || state.has_more
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.state.lock().is_leaving
    }

    /// Returns the suffix of the name to be registered, or `None` if there is a name in this generation.
    pub(super) fn next_name(&self, generation: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let is_registered = state.name.as_ref().is_some_and(|name| name.generation == generation);
        state.names += u64::from(!is_registered);
        (!is_registered).then_some(state.names)
    }

    /// Continues under a new name, with which a first call has been made.
    pub(super) fn registered(&self, name: String, generation: u64, events: Vec<UserEvent>) {
        self.pass_on(events);
        let mut state = self.state.lock();
        let name = RegisteredName { name, generation, calls: 1, acknowledged: 1 };
        if let Some(earlier) = state.name.replace(name) {
            // The data set has changed, so Redis may have lost users, and has reported them before.
            state.registration.restart(true);
            state.given_up.push(earlier.name);
        }
    }

    /// Records that the name is no longer in use: other servers unregister its users.
    pub(super) fn lost_name(&self) {
        let mut state = self.state.lock();
        state.name = None;
        state.registration.restart(false);
    }

    /// Returns the next call, if there is a name. The caller must then call [`Self::confirm`] or [`Self::fail`].
    pub(super) fn next_call(&self) -> Option<Call> {
        let mut state = self.state.lock();
        if state.is_leaving { None } else { state.next_call() }
    }

    /// Records the reply to a call, and passes on the events.
    pub(super) fn confirm(&self, call: Call, has_more: bool, events: Vec<UserEvent>) {
        self.pass_on(events);
        let mut state = self.state.lock();
        state.is_calling = false;
        state.registration.confirm(call.changes);
        state.has_more = has_more;
        if let Some(name) = &mut state.name {
            name.acknowledged = call.number;
        }
        self.notify_if_settled(&state);
    }

    /// Records that the outcome of a call is unknown.
    pub(super) fn fail(&self, call: Call) {
        let mut state = self.state.lock();
        state.is_calling = false;
        state.registration.fail(call.changes);
        state.given_up.extend(call.given_up);
    }

    /// Returns the last call of this process, and how long Redis then keeps the name. There are no further calls.
    pub(super) fn last_call(&self) -> Option<(Call, Duration)> {
        let mut state = self.state.lock();
        state.is_leaving = true;
        let call = state.next_call()?;
        let linger = if state.registration.is_empty() { Duration::ZERO } else { self.linger };
        Some((call, linger))
    }

    fn pass_on(&self, events: Vec<UserEvent>) {
        events.into_iter().for_each(|event| self.sink.user_event(event));
    }
}

impl SharedState {
    fn is_settled(&self) -> bool {
        self.registration.is_sent() && !self.is_calling
    }

    fn next_call(&mut self) -> Option<Call> {
        let name = self.name.as_mut()?;
        name.calls += 1;
        let RegisteredName { name, calls, acknowledged, .. } = name.clone();
        let changes = self.registration.take();
        let given_up = if self.registration.is_sent() { self.given_up.pop() } else { None };
        self.is_calling = true;
        Some(Call { name, number: calls, acknowledged: Some(acknowledged), given_up, changes })
    }
}
