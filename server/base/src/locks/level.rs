//! The levels of locks, as types: the second parameter of a lock's type is its level.

/// Type that represents a [`Level`].
pub trait LockLevel {
    const LEVEL: Level;
}

macro_rules! levels {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub enum Level {
            $($(#[$attribute])* $name),*
        }

        $(
            $(#[$attribute])*
            #[derive(Debug)]
            pub enum $name {}

            $(#[$attribute])*
            impl LockLevel for $name {
                const LEVEL: Level = Level::$name;
            }
        )*
    };
}

// The order, from the outermost to the innermost.
levels! {
    /// The table of all sessions, channels or reminders. Every thread uses it, so it is locked for a single
    /// access, and only by a thread that holds no other lock. Calls to the memory engine look up a channel,
    /// and are therefore made with no lock held.
    Table,
    /// A session. It reads logs, and joins and leaves them, in one step with the change to its own state. A
    /// log notifies its sessions only after it is unlocked.
    Session,
    /// The log of a channel or pattern. A publish locks all logs that it appends to, first the channel's and
    /// then those of patterns, always in the same order.
    Log,
    /// The accounts of all creators of channels, by the memory that their logs use. Updated with every log.
    LogBudget,
    /// The logs of one creator, by age. Searched while the accounts are locked.
    LogAges,
    /// The numbers of subscribers. Changes are queued for webhooks while it is locked, to preserve their
    /// order.
    Occupancy,
    /// The sessions that keep users online. Changes are queued for webhooks while it is locked, as for
    /// subscribers.
    OnlineUsers,
    /// Any other lock. No lock is taken while it is held.
    Leaf,
}
