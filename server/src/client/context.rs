use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::ConnectionId;
use futures_util::future::select;

use super::unfinished::Sender;
use crate::admission::{Descriptors, Permits, Rates, RefusalReason, Refusals, Unfinished, network};
use crate::auth::{Auth, AuthError, Identity};
use crate::backend::Backend;
use crate::channel::ChannelName;
use crate::engine::Health;
use crate::entropy::Entropy;
use crate::issuer::Issuer;
use crate::metrics::Metrics;
use crate::reminders::Reminders;
use crate::rest;
use crate::session::{AttachRequest, Attached, Logs, Refusal, SessionCell, SessionRef, Sessions};
use crate::timeouts::{self, Sleep, Timeouts};
#[cfg(feature = "otlp")]
use crate::trace::Tracer;

/// What connections need in order to rest.
pub(crate) type Rest = rest::Rest<(SessionRef, ConnectionId)>;

/// What every connection of a client shares.
pub(crate) struct Context {
    pub(crate) timeouts: Arc<Timeouts>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) logs: Logs,
    /// What the backend wants done later.
    pub(crate) reminders: Arc<Reminders>,
    /// The backend, if it is asked before something is done.
    pub(crate) backend: Option<Arc<Backend>>,
    /// The keys of the issuer of tokens, if it publishes them.
    pub(crate) issuer: Option<Arc<Issuer>>,
    /// Of an engine that is elsewhere.
    pub(crate) engine_health: Option<Arc<Health>>,
    /// Where there is a collector of traces.
    #[cfg(feature = "otlp")]
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) metrics: Arc<Metrics>,
    /// One for each connection that has a session.
    pub(crate) permits: Arc<Permits>,
    pub(crate) descriptors: Descriptors,
    pub(crate) refusals: Refusals,
    /// Of the commands of all sessions of each user.
    pub(crate) user_rates: Rates<String>,
    /// Of tokens with bad signatures, by network: each costs more to verify than to send.
    pub(crate) bad_signatures: Rates<IpAddr>,
    /// Of all connections.
    pub(crate) unfinished: Arc<Unfinished<Sender>>,
    /// Of new sessions, by network.
    pub(crate) session_rates: Rates<IpAddr>,
    pub(crate) entropy: Entropy,
    /// Unless connections keep their tasks.
    pub(crate) rest: Option<Rest>,
    pub(crate) settings: ClientSettings,
}

/// What stands still in a server that looks well from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// No timeout passes.
    Timeouts(timeouts::Stalled),
    /// Nobody hears what connections at rest say.
    Rest,
}

/// So long at least a client has for what it is told at its end: to read it, and to end its stream.
const LEAST_CLOSING: Duration = Duration::from_millis(100);

impl Context {
    /// Ready when a connection that ends has had its time to be told why: `close_timeout`, or less as long as another waits for its descriptor.
    pub(crate) async fn closing_is_over(&self) {
        let since = self.timeouts.clock().now();
        let timeout = pin!(self.timeouts.sleep(self.settings.close_timeout));
        let is_wanted = pin!(async {
            while self.timeouts.clock().now().since(since) < LEAST_CLOSING {
                self.descriptors.wanted().await;
            }
        });
        select(timeout, is_wanted).await;
    }

    /// Whether timeouts pass, and what connections at rest say is heard, within `watchdog`.
    ///
    /// # Errors
    /// What stands still.
    pub(crate) fn health(&self, watchdog: Duration) -> Result<(), Stalled> {
        self.timeouts.health(watchdog).map_err(Stalled::Timeouts)?;
        let since = self.rest.as_ref().and_then(|rest| rest.poller.acting_since());
        match since {
            Some(since) if self.timeouts.clock().now().since(since) > watchdog => Err(Stalled::Rest),
            _ => Ok(()),
        }
    }

    /// Gives a connection from this address the session that it asks for, or a new one. See [`Sessions::attach`].
    ///
    /// # Errors
    /// The refusal, which is counted and logged.
    pub(crate) fn attach(
        &self,
        address: IpAddr,
        request: impl FnOnce(bool) -> AttachRequest,
        has_ended: impl Fn() -> bool,
    ) -> Result<Attached, Refusal> {
        let (network, now) = (network(address), self.timeouts.clock().now());
        let request = request(self.session_rates.has_room(&network, now));
        let attached = self.sessions.attach(&request, self.permits.take(address), has_ended);
        match &attached {
            Ok(attached) if attached.recovered => {}
            Ok(_) => _ = self.session_rates.take(&network, now),
            Err(refusal) => self.refused(*refusal, address),
        }
        attached
    }

    /// How long a request for what is new is held whose client asks for so long, or leaves it to the server. One that was not told yet how to
    /// ask is told at once.
    pub(crate) fn hold_for(&self, asked: Option<Duration>, session: &SessionCell) -> Duration {
        let longest = if session.is_advised() { self.sessions.settings().poll_hold } else { Duration::ZERO };
        asked.map_or(longest, |asked| asked.min(longest))
    }

    /// What the client of a session has to wait for, if its frames and requests have come too fast.
    pub(crate) fn pause(&self, session: &SessionCell) -> Option<Sleep> {
        let next_at = session.frames.next_at();
        (next_at > self.timeouts.clock().now()).then(|| self.timeouts.sleep_until(next_at))
    }

    /// The client of a session has sent so many more.
    pub(crate) fn count_frames(&self, session: &SessionCell, count: usize) {
        session.frames.count(count, self.settings.frames_per_second, self.timeouts.clock().now());
    }

    /// Who the owner of a token from this address is. A token may have come with a connection, or on one.
    ///
    /// # Errors
    /// [`NotIdentified`]. A bad signature counts for the address.
    pub(crate) fn identify(&self, token: Option<&str>, address: IpAddr) -> Result<Identity, NotIdentified> {
        let (clock, network) = (self.timeouts.clock(), network(address));
        if !self.bad_signatures.has_room(&network, clock.now()) {
            return Err(NotIdentified::TooManyBadSignatures);
        }
        let now = clock.unix_now();
        let identity = self.auth.identify(token, now).and_then(|identity| {
            self.sessions.revocations().check(&identity, now)?;
            self.check_joins(&identity)?;
            Ok(identity)
        });
        identity.map_err(|error| {
            if error == AuthError::BadSignature {
                self.bad_signatures.take(&network, clock.now());
            }
            let may_be_known_later = error.is_of_another_key()
                && self.issuer.as_ref().is_some_and(|issuer| !issuer.is_up_to_date());
            if may_be_known_later { NotIdentified::KeysUnknown } else { NotIdentified::BadToken(error) }
        })
    }

    /// Whether sessions can join what their token names.
    fn check_joins(&self, identity: &Identity) -> Result<(), AuthError> {
        let bad = |problem| Err(AuthError::BadClaim { claim: "join", problem });
        let longest = self.settings.channel_name_bytes;
        if identity.joins().count() > self.settings.max_subscriptions {
            return bad("has more channels than limits.max_subscriptions");
        }
        if identity.joins().any(|name| ChannelName::new(name, longest).is_err()) {
            return bad("has a name that no channel may have");
        }
        Ok(())
    }

    /// Whether there is none for one more connection.
    fn has_no_descriptor(&self) -> bool {
        self.descriptors.are_too_few(self.permits.taken(), self.timeouts.clock().now())
    }

    fn refused(&self, refusal: Refusal, address: IpAddr) {
        let (reason, detail) = match refusal {
            Refusal::TooManyConnections if self.has_no_descriptor() => {
                (RefusalReason::Overloaded, "descriptors (LimitNOFILE, `ulimit -n`)")
            }
            Refusal::TooManyConnections => {
                (RefusalReason::Overloaded, "limits.max_connections or limits.max_connections_per_address")
            }
            Refusal::TooManySessions => (RefusalReason::Overloaded, "limits.max_sessions"),
            Refusal::TooFast => (RefusalReason::SessionRate, "limits.sessions_per_second_per_address"),
            Refusal::Draining | Refusal::Moved => (RefusalReason::Draining, "the server is going away"),
            Refusal::NotTheUser => (RefusalReason::User, "the session is another user's"),
            Refusal::Gone => (RefusalReason::Gone, "the session is gone"),
            Refusal::Ended(code) => (RefusalReason::Gone, code.reason()),
            Refusal::Late => (RefusalReason::Late, "the client has come back on another connection"),
        };
        self.refusals.refused(reason, address, detail);
    }
}

/// Why it is not known who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotIdentified {
    /// Its token was not looked at.
    #[error("limits.bad_signatures_per_second")]
    TooManyBadSignatures,
    /// Its key may be one of the issuer's, which has still to be asked.
    #[error("the issuer's keys are being read (auth.jwks): come again")]
    KeysUnknown,
    #[error(transparent)]
    BadToken(#[from] AuthError),
}

impl NotIdentified {
    pub(crate) fn reason(self) -> RefusalReason {
        match self {
            Self::TooManyBadSignatures => RefusalReason::TooManyBadSignatures,
            Self::KeysUnknown => RefusalReason::IssuerKeys,
            Self::BadToken(error) => RefusalReason::from(&error),
        }
    }
}

/// What one client may use.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// The longest name of a channel, in bytes.
    pub(crate) channel_name_bytes: usize,
    /// Channels that one session may follow.
    pub(crate) max_subscriptions: usize,
    /// Commands of one session; 0 for any number.
    pub(crate) commands_per_second: u32,
    /// Frames of one session; 0 for any number.
    pub(crate) frames_per_second: u32,
    /// The longest message from a client, in bytes.
    pub(crate) max_message: usize,
    /// The most bytes that wait to be sent on one connection, here and in the kernel each.
    pub(crate) send_buffer: usize,
    /// How long a client may take to acknowledge [`ClientSettings::least_progress`].
    pub(crate) write_timeout: Duration,
    /// In bytes a second.
    pub(crate) slowest_reader: usize,
    /// How long to wait for a client to end a connection that we closed.
    pub(crate) close_timeout: Duration,
}

impl ClientSettings {
    /// The bytes that a client must acknowledge in each `write_timeout`, if there are so many.
    pub(crate) fn least_progress(&self) -> u64 {
        let bytes =
            self.slowest_reader as u128 * self.write_timeout.as_nanos() / Duration::from_secs(1).as_nanos();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
}
