//! What the backend of whoever runs the server is asked before something is done, and what clients call it for.
//!
//! A question is one signed request, with a deadline on the wheel. So many may be under way, of one session and in all; and where the backend
//! fails again and again, a circuit breaker has it left alone for a while. Whatever fails is a closed door: nothing is done that would have needed an answer.

mod asking;
mod breaker;
mod in_flight;
mod question;
mod settings;

pub(crate) use asking::{Ask, Asker, Backend, NoAnswer};
pub(crate) use question::{Answered, Question, WhoComes};
pub(crate) use settings::BackendSettings;
