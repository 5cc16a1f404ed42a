//! Outputs of the state machine that concern a connection.

use encke_core::session::{ConnectionId, ConnectionInput, Input, Output, Phase, StepContext};

use crate::session::table::{PendingWork, SessionCell, SessionState, Signals, Unparked};

/// Returns the connection that an output is for, and the signals to post to it.
pub(super) fn signals_of(output: Output) -> Option<(ConnectionId, Signals)> {
    match output {
        Output::Ping(connection) => Some((connection, Signals::PING)),
        Output::Probe(connection) => Some((connection, Signals::PROBE)),
        Output::Close(connection, code) => Some((connection, Signals::close(code))),
        Output::AnswerPoll(connection) => Some((connection, Signals::ANSWER)),
        Output::Superseded(connection) => Some((connection, Signals::SUPERSEDED)),
        Output::RoundTrip(_) | Output::Fired(..) | Output::Event(_) => None,
    }
}

/// Carries out a step's outputs for the parked connection, until none is left or the connection is
/// unparked. Outputs for other connections are kept. `before` is the phase before the step.
pub(super) fn act_for_parked(
    state: &mut SessionState,
    session: &SessionCell,
    before: Phase,
    step: &mut StepContext<'_>,
) -> Option<Unparked> {
    let Phase::Attached(id) = before else { return None };
    while let Some(connection) = &mut state.parked {
        let signals = |output: &Output| signals_of(*output).filter(|(of, _)| *of == id);
        let (at, (_, signals)) =
            step.outputs.iter().enumerate().find_map(|(at, output)| Some((at, signals(output)?)))?;
        match step.outputs.remove(at) {
            Output::Ping(_) => match connection.write_ping(state.machine.outbox().sent()) {
                Ok(seq) => {
                    state.machine.handle_without_timeouts(
                        step,
                        Input::Connection(id, ConnectionInput::PingSent { seq }),
                    );
                }
                Err(work) => return state.unpark(id, session.reference(), Signals::NONE, work),
            },
            // Evidence that only the kernel has seen counts as well. Without it, the connection's task
            // decides what to do.
            Output::Probe(_) if connection.is_alive() => {
                state.machine.received(step.now);
                state.machine.handle_without_timeouts(step, Input::Connection(id, ConnectionInput::Probed));
            }
            _ => return state.unpark(id, session.reference(), signals, PendingWork::default()),
        }
    }
    None
}
