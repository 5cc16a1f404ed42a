//! The binary against a small server in this process that behaves as each test needs it.

mod fake_channel;
mod fake_server;
mod run;

mod assertions;
mod compare;
mod cost;
mod exit_codes;
mod fanout;
mod hold;
mod mute;
mod processes;
mod result;
mod selftest;
mod storm;
