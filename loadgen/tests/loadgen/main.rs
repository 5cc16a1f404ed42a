//! Tests of the binary against small servers in this process that behave as each test requires.

mod fake_http;
mod run;

mod churn;
mod cost;
mod exit_codes;
mod hold;
mod mix;
mod result;
mod selftest;
mod storm;
mod targets;
