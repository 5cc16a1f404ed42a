//! Identification of clients by their tokens.

use encke_broker::channel::ChannelName;
use encke_core::close::CloseCode;

use super::caller::{AuthDecision, AuthResult};
use super::{Caller, Refusal, Services};
use crate::admission::{RefusalReason, TokenSender};
use crate::auth::{AuthError, Identity};
use crate::session::{AttachRefusal, SessionCell};

/// Whether a request that uses a session needs a token, if the server has keys to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRule {
    Required,
    /// For Bayeux messages after the handshake: stock clients send their token only with the handshake. A
    /// token that is sent again is verified.
    Optional,
}

impl Services {
    /// Returns the client's identity: the result of [`Self::authenticate`] if that was needed, otherwise the
    /// identity in the token. `session` is the number of the session whose resume token the request contains.
    ///
    /// # Errors
    /// Returns the close code that refuses the client, after counting and logging the refusal.
    pub(crate) fn identify_caller(
        &self,
        caller: &Caller,
        token: Option<&str>,
        session: Option<u128>,
    ) -> AuthResult {
        if let Some(AuthDecision { identity, .. }) = &caller.decision {
            return identity.clone();
        }
        let refusals = &self.limits.refusals;
        if let Err(refused) = &caller.origin {
            refusals.record(RefusalReason::Origin, caller.address, refused);
            return Err(CloseCode::Unauthorized);
        }
        let sender = TokenSender { session, address: caller.address };
        self.identify(caller.token(token), sender).map_err(|error| {
            refusals.record(error.reason(), caller.address, error);
            match error {
                // The token may be valid, so the client is asked to reconnect.
                IdentifyError::TooManyBadSignatures | IdentifyError::KeysPending => CloseCode::Overloaded,
                IdentifyError::BadToken(AuthError::Expired) => CloseCode::TokenExpired,
                IdentifyError::BadToken(_) => CloseCode::Unauthorized,
            }
        })
    }

    /// Returns the identity with which a request uses an existing session, on every transport: the request
    /// must present the session's resume token, which has found the session, and a valid token of the
    /// session's user.
    ///
    /// # Errors
    /// Returns the refusal, after counting and logging it.
    pub(crate) fn identify_for_session(
        &self,
        caller: &Caller,
        token: Option<&str>,
        session: &SessionCell,
        rule: TokenRule,
    ) -> Result<Identity, Refusal> {
        let current = session.identity();
        let is_by_backend = self.access.has_connect_hook() && caller.decision.is_none();
        let is_omitted = rule == TokenRule::Optional && caller.token(token).is_none();
        let presented = match is_omitted || (is_by_backend && !self.access.auth.needs_token()) {
            true => None,
            false => {
                let number = Some(session.id().number());
                Some(self.identify_caller(caller, token, number).map_err(Refusal::Unidentified)?)
            }
        };
        if presented.as_ref().is_some_and(|presented| !presented.is_same_user(&current)) {
            return Err(self.refuse_attachment(AttachRefusal::WrongUser, caller.address));
        }
        // A token does not replace the identity that the backend has named.
        if let Some(presented) = presented.filter(|_| !is_by_backend) {
            return Ok(presented);
        }
        let now = self.timeouts.clock().unix_now();
        let holds = current.expires().is_none_or(|expires| expires > now);
        if holds { Ok(current) } else { Err(Refusal::Unidentified(CloseCode::TokenExpired)) }
    }

    /// Identifies the owner of a token. The token may have arrived when a connection was opened, or in a
    /// message on it.
    ///
    /// # Errors
    /// Returns [`IdentifyError`] if the token is rejected or cannot be checked. A bad signature counts
    /// against the sender.
    pub(crate) fn identify(
        &self,
        token: Option<&str>,
        sender: TokenSender,
    ) -> Result<Identity, IdentifyError> {
        let (clock, signatures) = (self.timeouts.clock(), &self.limits.signatures);
        if token.is_some() && !signatures.admit(sender, clock.now()) {
            return Err(IdentifyError::TooManyBadSignatures);
        }
        let now = clock.unix_now();
        let identity = self.access.auth.identify(token, now).and_then(|identity| {
            self.sessions.revocations().check(&identity, now)?;
            self.check_joins(&identity)?;
            Ok(identity)
        });
        identity.map_err(|error| {
            if error == AuthError::BadSignature {
                signatures.count_invalid(sender, clock.now());
            }
            let may_be_known_soon = error.has_unknown_key()
                && self.access.issuer.as_ref().is_some_and(|issuer| !issuer.ensure_fresh());
            if may_be_known_soon { IdentifyError::KeysPending } else { IdentifyError::BadToken(error) }
        })
    }

    /// Checks that sessions will be able to join the channels that their token names.
    fn check_joins(&self, identity: &Identity) -> Result<(), AuthError> {
        let bad = |problem| Err(AuthError::BadClaim { claim: "join", problem });
        let max_name_bytes = self.settings.channel_name_bytes;
        if identity.joins().count() > self.settings.max_subscriptions {
            return bad("has more channels than limits.max_subscriptions");
        }
        if identity.joins().any(|name| ChannelName::new(name, max_name_bytes).is_err()) {
            return bad("has an invalid channel name");
        }
        Ok(())
    }
}

/// Why a client could not be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdentifyError {
    /// The sender has sent too many bad signatures, so this token was not checked.
    #[error("limits.bad_signatures_per_second")]
    TooManyBadSignatures,
    /// The token's key may be one of the issuer's keys, which have not been fetched yet.
    #[error("the issuer's keys are not available yet (auth.jwks): try again")]
    KeysPending,
    #[error(transparent)]
    BadToken(#[from] AuthError),
}

impl IdentifyError {
    pub(crate) fn reason(self) -> RefusalReason {
        match self {
            Self::TooManyBadSignatures => RefusalReason::TooManyBadSignatures,
            Self::KeysPending => RefusalReason::IssuerKeys,
            Self::BadToken(error) => match error {
                AuthError::Missing => RefusalReason::TokenMissing,
                AuthError::Malformed => RefusalReason::TokenMalformed,
                AuthError::UnknownKey | AuthError::MissingKid => RefusalReason::TokenKey,
                AuthError::WrongAlgorithm => RefusalReason::TokenAlgorithm,
                AuthError::BadSignature => RefusalReason::TokenSignature,
                AuthError::Expired => RefusalReason::TokenExpired,
                AuthError::Revoked => RefusalReason::TokenRevoked,
                AuthError::NotYetValid => RefusalReason::TokenNotYetValid,
                AuthError::BadClaim { .. } => RefusalReason::TokenClaim,
            },
        }
    }
}
