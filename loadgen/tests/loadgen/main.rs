//! The binary against a small server in this process that behaves as each test needs it.

mod fake_channel;
mod fake_server;
mod fake_sessions;
mod fake_targets;
mod run;

mod churn;
mod exit_codes;
mod fanout;
mod hold;
mod late;
mod mix;
mod mute;
mod resume;
mod slow;
mod storm;
mod takeover;
mod targets;
mod vanish;
