//! Admission of clients to sessions, for all transports and dialects.

use std::net::IpAddr;

use encke_base::quota::network;
use encke_broker::channel::ChannelName;
use encke_core::close::CloseCode;

use super::{Caller, Refusal, Services, TokenRule};
use crate::admission::RefusalReason;
use crate::auth::{Identity, Permission};
use crate::http::ApiError;
use crate::session::{AttachRefusal, AttachRequest, Attached, SessionRequest};

/// A client's request for a session.
#[derive(PartialEq, Eq)]
pub(crate) struct AdmitRequest {
    /// Unverified JWT from the query, or from a message.
    pub(crate) token: Option<String>,
    pub(crate) session: SessionRequest,
}

impl Services {
    /// Attaches a client's connection to the session it asks for, or to a new one. `channels` are those that
    /// the client will be subscribed to. See [`Sessions::attach`](crate::session::Sessions::attach) for
    /// `has_ended`.
    ///
    /// # Errors
    /// Returns the refusal, after counting and logging it.
    pub(crate) fn admit(
        &self,
        caller: &Caller,
        AdmitRequest { token, session }: AdmitRequest,
        channels: &[ChannelName],
        has_ended: impl Fn() -> bool,
    ) -> Result<Attached, Refusal> {
        let (token, resumed) = (token.as_deref(), session.resume.as_deref());
        let identity = match resumed.and_then(|resumed| self.sessions.find(resumed)) {
            Some(found) => self.identify_for_session(caller, token, &found, TokenRule::Required)?,
            None => self.identify_caller(caller, token, None).map_err(Refusal::Unidentified)?,
        };
        self.admit_identified(caller, identity, session, channels, has_ended)
    }

    /// Like [`Self::admit`], but for a client whose identity is known.
    pub(crate) fn admit_identified(
        &self,
        caller: &Caller,
        identity: Identity,
        wanted: SessionRequest,
        channels: &[ChannelName],
        has_ended: impl Fn() -> bool,
    ) -> Result<Attached, Refusal> {
        if let Some(channel) =
            channels.iter().find(|channel| !identity.allows(Permission::Subscribe, channel.as_str()))
        {
            let message = Permission::Subscribe.denial(&format!("`{channel}`"));
            let error = self.report_refusal(RefusalReason::Channel, ApiError::forbidden(message), caller);
            return Err(error.into());
        }
        let address = caller.address;
        let (network, now) = (network(address), self.timeouts.clock().now());
        let request = AttachRequest {
            wanted: SessionRequest { only_resume: wanted.only_resume || caller.can_only_resume(), ..wanted },
            identity,
            address,
            arrival: caller.arrival,
            has_session: caller.has_session,
            can_open: self.limits.session_rates.has_room(&network, now),
        };
        match self.sessions.attach(&request, self.limits.permits.take(address), has_ended) {
            Ok(attached) => {
                if !attached.recovered {
                    self.limits.session_rates.try_count(&network, now);
                }
                Ok(attached)
            }
            Err(refusal) => Err(match self.refuse_attachment(refusal, address) {
                // Make the client reconnect, so that the backend is called to authenticate it.
                Refusal::NotAttached(AttachRefusal::SessionGone) if caller.can_only_resume() => {
                    Refusal::Unidentified(CloseCode::Overloaded)
                }
                refusal => refusal,
            }),
        }
    }

    /// Counts and logs a refusal.
    pub(super) fn refuse_attachment(&self, refusal: AttachRefusal, address: IpAddr) -> Refusal {
        let (reason, detail) = self.describe(refusal);
        self.limits.refusals.record(reason, address, detail);
        Refusal::NotAttached(refusal)
    }

    /// Counts and logs the refusal of a request.
    pub(crate) fn report_refusal(&self, reason: RefusalReason, error: ApiError, caller: &Caller) -> ApiError {
        self.limits.refusals.record(reason, caller.address, &error);
        error
    }

    /// Checks that the origin of the requesting page is allowed.
    pub(crate) fn check_origin(&self, caller: &Caller) -> Result<(), ApiError> {
        caller.origin.as_ref().map_err(|refused| {
            self.report_refusal(RefusalReason::Origin, ApiError::forbidden(refused.to_string()), caller)
        })?;
        Ok(())
    }

    fn describe(&self, refusal: AttachRefusal) -> (RefusalReason, &'static str) {
        match refusal {
            AttachRefusal::TooManyConnections
                if self
                    .limits
                    .descriptors
                    .is_exhausted(self.limits.permits.taken(), self.timeouts.clock().now()) =>
            {
                (RefusalReason::Overloaded, "descriptors (LimitNOFILE, `ulimit -n`)")
            }
            AttachRefusal::TooManyConnections => {
                (RefusalReason::Overloaded, "limits.max_connections or limits.max_connections_per_address")
            }
            AttachRefusal::Unavailable => {
                (RefusalReason::Overloaded, "the sessions in Redis are unavailable")
            }
            AttachRefusal::TooManySessions => (RefusalReason::Overloaded, "limits.max_sessions"),
            AttachRefusal::TooManyNewSessions => {
                (RefusalReason::SessionRate, "limits.sessions_per_second_per_address")
            }
            AttachRefusal::Moved if self.shared_sessions.is_some() => {
                (RefusalReason::Overloaded, "the session is moving to another server")
            }
            AttachRefusal::Draining | AttachRefusal::Moved => {
                (RefusalReason::Draining, "the server is shutting down")
            }
            AttachRefusal::WrongUser => (RefusalReason::User, "the session belongs to another user"),
            AttachRefusal::SessionGone => (RefusalReason::Gone, "the session no longer exists"),
            AttachRefusal::Ended(code) => (RefusalReason::Gone, code.reason()),
            AttachRefusal::AlreadyReconnected => {
                (RefusalReason::Late, "the client has reconnected on another connection")
            }
        }
    }
}
