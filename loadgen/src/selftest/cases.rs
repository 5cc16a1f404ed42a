//! The table of faults, and the run and numbers that must reveal each.

use super::bad_frame::BadFrame;
use super::fault::Fault;
use super::runs::{
    CHURN, EXPIRE, FANOUT, FANOUT_CUT, HOLD, LATE, MUTE, MUTE_HALF, RESUME, Run, SLOW, SLOW_READS, STORM,
    Sign, TAKEOVER, VANISH, says,
};

/// Fault that a run must report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) run: &'static Run,
    /// All of these must hold for the faulty server, and not all of them for the honest one.
    pub(super) signs: &'static [Sign],
}

const fn case(fault: Fault, run: &'static Run, signs: &'static [Sign]) -> Case {
    Case { fault, run, signs }
}

/// An invalid frame ends a connection in any scenario.
const fn bad(frame: BadFrame, signs: &'static [Sign]) -> Case {
    case(Fault::SendsBadFrame(frame), &HOLD, signs)
}

/// Every fault at least once.
pub(super) static CASES: &[Case] = &[
    case(
        Fault::LosesMessage,
        &FANOUT,
        &[says("lost", "==1"), says("duplicated", "==0"), says("misordered", "==0")],
    ),
    case(
        Fault::DoublesMessage,
        &FANOUT,
        &[says("duplicated", "==1"), says("lost", "==0"), says("misordered", "==0")],
    ),
    case(
        Fault::MisordersMessages,
        &FANOUT,
        &[says("misordered", "==1"), says("lost", "==0"), says("duplicated", "==0")],
    ),
    case(Fault::ChangesMessage, &FANOUT, &[says("corrupted", "==1"), says("lost", "==1")]),
    case(Fault::DeliversForeign, &FANOUT, &[says("foreign", "==1"), says("lost", "==0")]),
    case(Fault::TellsGap, &FANOUT, &[says("gaps", "==1"), says("gap_messages", "==1"), says("lost", "==1")]),
    case(Fault::SkipsSeq, &FANOUT, &[says("misnumbered", "==5"), says("lost", "==0")]),
    case(Fault::DelaysMessages, &FANOUT, &[says("delivery_latency_ms.p50", ">=390"), says("lost", "==0")]),
    case(Fault::SkipsOnResume, &FANOUT_CUT, &[says("lost", "==5"), says("resumed", "==5")]),
    case(Fault::RepeatsOnResume, &FANOUT_CUT, &[says("duplicated", "==5"), says("lost", "==0")]),
    case(Fault::MisstatesSeqOnResume, &FANOUT_CUT, &[says("misnumbered", "==5"), says("lost", "==0")]),
    case(Fault::ForgetsSessions, &FANOUT_CUT, &[says("not_recovered", "==5"), says("resumed", "==0")]),
    case(Fault::ForgetsSessions, &STORM, &[says("error_kinds.not_recovered", "==5"), says("resumed", "==0")]),
    case(Fault::RefusesToResume, &STORM, &[says("error_kinds.closed_4102", "==5"), says("resumed", "==0")]),
    case(Fault::ClosesEarly, &MUTE, &[says("early", "==5")]),
    case(Fault::ClosesLate, &MUTE, &[says("lateness_ms.p50", ">=500"), says("early", "==0")]),
    case(Fault::NeverCloses, &MUTE, &[says("still_open", "==5"), says("closed", "==0")]),
    case(Fault::ClosesWithWrongCode, &MUTE, &[says("other_closes", "==5"), says("close_codes.4001", "==5")]),
    case(Fault::CutsWithoutClose, &MUTE, &[says("close_codes.1006", "==5")]),
    case(Fault::ClosesWhoAnswers, &HOLD, &[says("unexpected_closes", "==5")]),
    case(Fault::ClosesWhoAnswers, &MUTE_HALF, &[says("unexpected_closes", ">=1"), says("closed", "==2")]),
    case(Fault::PingsEarly, &HOLD, &[says("pings_early", ">=5"), says("unexpected_closes", "==0")]),
    case(Fault::PingsLate, &HOLD, &[says("ping_lateness_ms.p50", ">=200"), says("pings_early", "==0")]),
    case(Fault::NeverPings, &HOLD, &[says("pings", "==0"), says("unexpected_closes", "==0")]),
    case(Fault::GreetsLate, &HOLD, &[says("connect_ms.p50", ">=490"), says("errors", "==0")]),
    case(Fault::GreetsLate, &CHURN, &[says("connect_ms.p50", ">=490"), says("errors", "==0")]),
    case(Fault::ClosesWhoAnswers, &CHURN, &[says("unexpected_closes", ">=1"), says("errors", "==0")]),
    case(Fault::ClosesEarly, &LATE, &[says("closed_in_time", "==3"), says("missed", "==0")]),
    case(Fault::ClosesLate, &LATE, &[says("forgiven", "==2"), says("closed", "==0")]),
    case(Fault::GivesUpUpgradesEarly, &EXPIRE, &[says("early", "==5"), says("closed", "==5")]),
    case(Fault::GivesUpUpgradesLate, &EXPIRE, &[says("lateness_ms.p50", ">=490"), says("early", "==0")]),
    case(Fault::NeverGivesUpUpgrades, &EXPIRE, &[says("still_open", "==5"), says("closed", "==0")]),
    case(Fault::NeverPings, &LATE, &[says("still_open", "==2"), says("in_time", "==0")]),
    case(Fault::ForgetsSessions, &VANISH, &[says("early", "==3"), says("resumed", "==0")]),
    case(Fault::EndsSessionsEarly, &VANISH, &[says("early", "==3"), says("refused", "==2")]),
    case(Fault::KeepsSessionsTooLong, &VANISH, &[says("overdue", "==2"), says("resumed", "==3")]),
    case(Fault::KeepsSessionsTooLong, &RESUME, &[says("overdue", "==2"), says("refused", "==0")]),
    case(Fault::SkipsOnResume, &RESUME, &[says("lost", ">=1"), says("duplicated", "==0")]),
    case(Fault::RepeatsOnResume, &RESUME, &[says("duplicated", ">=1"), says("lost", "==0")]),
    case(Fault::ForgetsSessions, &RESUME, &[says("early", ">=1"), says("resumed", "==0")]),
    case(Fault::LeavesBothConnections, &TAKEOVER, &[says("still_open", "==5"), says("taken", "==5")]),
    case(Fault::ReplacesWithWrongCode, &TAKEOVER, &[says("other_closes", "==5"), says("replaced", "==0")]),
    case(
        Fault::ForgetsSessions,
        &TAKEOVER,
        &[says("error_kinds.not_recovered", "==5"), says("taken", "==0")],
    ),
    case(Fault::UpgradesWrongly, &HOLD, &[says("error_kinds.upgrade", "==5"), says("connected", "==0")]),
    case(
        Fault::GreetsWithBadFrame(BadFrame::Masked),
        &HOLD,
        &[says("error_kinds.frame_masked", "==5"), says("connected", "==0")],
    ),
    bad(
        BadFrame::ReservedBits,
        &[says("frame_faults.reserved_bits", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(
        BadFrame::UnknownOpcode,
        &[says("frame_faults.unknown_opcode", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(BadFrame::Masked, &[says("frame_faults.masked", "==5"), says("close_codes.1002", "==5")]),
    bad(BadFrame::LongForm, &[says("frame_faults.length_form", "==5"), says("close_codes.1002", "==5")]),
    bad(BadFrame::HighestBit, &[says("frame_faults.length_form", "==5"), says("close_codes.1002", "==5")]),
    bad(
        BadFrame::FragmentedControl,
        &[says("frame_faults.fragmented_control", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(BadFrame::LongControl, &[says("frame_faults.long_control", "==5"), says("close_codes.1002", "==5")]),
    bad(
        BadFrame::NothingToContinue,
        &[says("frame_faults.nothing_to_continue", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(
        BadFrame::MessageWithinMessage,
        &[says("frame_faults.message_within_message", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(
        BadFrame::HalfACloseCode,
        &[says("frame_faults.half_a_close_code", "==5"), says("close_codes.1002", "==5")],
    ),
    bad(BadFrame::CloseCode, &[says("frame_faults.close_code", "==5"), says("close_codes.1002", "==5")]),
    bad(BadFrame::NotUtf8, &[says("frame_faults.not_utf8", "==5"), says("close_codes.1007", "==5")]),
    bad(BadFrame::NotUtf8InPieces, &[says("frame_faults.not_utf8", "==5"), says("close_codes.1007", "==5")]),
    bad(BadFrame::TooBig, &[says("frame_faults.too_big", "==5"), says("close_codes.1009", "==5")]),
    case(Fault::NeverGivesUpReaders, &SLOW, &[says("still_open", "==2"), says("closed", "==0")]),
    case(Fault::GivesUpWithWrongCode, &SLOW, &[says("other_closes", "==2"), says("closed", "==0")]),
    case(Fault::GivesUpSlowReaders, &SLOW_READS, &[says("closed", "==2"), says("still_open", "==0")]),
];
