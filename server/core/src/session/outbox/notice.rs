/// A notice about a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) change: SubscriptionChange,
    /// Last assigned seq when the notice was sent; `None` while it is pending.
    pub(super) sent_after: Option<u64>,
}

/// A change of a subscription that the client did not request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionChange {
    /// The subscription is live. If `granted`, it does not depend on the client's other permissions.
    Begun {
        granted: bool,
    },
    Ended(EndReason),
}

/// Why a subscription ended without the client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The backend ended the subscription.
    Removed,
    /// The client is no longer allowed to subscribe to the channel.
    Forbidden,
}

impl Notice {
    pub(super) const fn is_end(self) -> bool {
        matches!(self.change, SubscriptionChange::Ended(_))
    }

    /// Whether the subscription is allowed regardless of the client's other permissions.
    pub(super) const fn is_granted(self) -> bool {
        matches!(self.change, SubscriptionChange::Begun { granted: true })
    }
}
