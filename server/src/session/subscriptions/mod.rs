//! Subscriptions of sessions to channels: how they begin and end, and how connections read from them.

mod command_source;
mod delivery;
mod direct_messages;
mod held_joins;
mod join_authoriser;
mod join_leave;
mod moved;
mod notice_table;
mod restore;
mod server_subscriptions;
mod subscribe;
mod subscribe_outcome;
mod subscriber;
mod subscription_start;

#[cfg(test)]
mod join_leave_tests;

pub(crate) use command_source::{ClientInput, CommandSource};
pub(crate) use delivery::{Backlog, DeliveryBatch, DeliveryWriter, take_batch};
pub(crate) use direct_messages::DirectMessageError;
pub(crate) use join_authoriser::JoinAuthoriser;
pub(crate) use subscribe::{SessionLimits, Subscriptions};
pub(crate) use subscribe_outcome::{SubscribeError, SubscribeOutcome};
pub(crate) use subscriber::{deliver_pending, signal_parked};
