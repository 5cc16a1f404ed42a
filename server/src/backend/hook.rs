use encke_base::quota::QuotaOwner;

/// Maximum size of a request body and of a response body, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;

/// Kind of a hook request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::EnumCount, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum HookKind {
    /// Authenticates a client that connects.
    Connect,
    /// Authorises a subscription.
    Subscribe,
    /// Authorises a publish, and may change its data or its channel.
    Publish,
    /// Executes a remote procedure call from a client.
    Call,
}

/// Client on whose behalf the backend is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookCaller {
    pub(crate) owner: QuotaOwner,
    /// Number of the client's session. `None` if it has no session yet.
    pub(crate) session: Option<u128>,
}

#[cfg(test)]
impl HookCaller {
    /// Creates a session of a user, or of an anonymous client at an address that all share.
    pub(super) fn session_of(user: Option<&str>, session: u128) -> Self {
        let owner = QuotaOwner::new(user.map(Into::into), [192, 0, 2, 1].into());
        Self { owner, session: Some(session) }
    }
}

/// Why an action is denied. The names of the variants are labels of metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum HookError {
    /// The backend denied the request.
    #[error("{message}")]
    Refused { code: Option<Box<str>>, message: String },
    #[error("the backend is unavailable")]
    Unavailable,
    #[error("the backend did not answer in time (backend.timeout)")]
    #[strum(serialize = "timeout")]
    TimedOut,
    #[error(
        "too many backend requests are in flight (backend.max_in_flight, backend.max_in_flight_per_session)"
    )]
    Overloaded,
    /// The backend's answer does not say what is allowed. Clients do not receive the problem.
    #[error("the backend's answer is not valid")]
    Invalid { problem: String },
    #[error("the request to the backend would be longer than {MAX_BODY_BYTES} bytes")]
    TooLarge,
}
