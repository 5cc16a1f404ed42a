//! Tests of the binary against small servers in this process that behave as each test requires.

mod accept;
mod fake_bayeux;
mod fake_channel;
mod fake_polls;
mod fake_server;
mod fake_sessions;
mod fake_targets;
mod run;

mod assertions;
mod bayeux;
mod churn;
mod compare;
mod cost;
mod exit_codes;
mod expire;
mod fanout;
mod hold;
mod late;
mod mix;
mod mute;
mod polls;
mod processes;
mod result;
mod resume;
mod selftest;
mod slow;
mod storm;
mod takeover;
mod targets;
mod vanish;
