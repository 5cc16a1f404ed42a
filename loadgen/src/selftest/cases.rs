//! The table of faults, with the run and the numbers that must reveal each fault.

use super::fault::Fault;
use super::invalid_frame::InvalidFrame;
use super::runs::{
    CHURN, EXPIRE, FANOUT, FANOUT_CUT, HOLD, LATE, MUTE, MUTE_HALF, RESUME, ReportCheck, SLOW, SLOW_READS,
    STORM, SelfTestRun, TAKEOVER, VANISH, check,
};

/// A fault, and the run that must report it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) run: &'static SelfTestRun,
    /// Checks that must all hold for the faulty server, and must not all hold for the honest one.
    pub(super) checks: &'static [ReportCheck],
}

const fn case(fault: Fault, run: &'static SelfTestRun, signs: &'static [ReportCheck]) -> Case {
    Case { fault, run, checks: signs }
}

/// Returns a case for an invalid frame. Such a frame ends a connection in any scenario.
const fn invalid_frame_case(frame: InvalidFrame, signs: &'static [ReportCheck]) -> Case {
    case(Fault::SendsInvalidFrameForPing(frame), &HOLD, signs)
}

/// Cases for every fault, at least one each.
pub(super) static CASES: &[Case] = &[
    case(
        Fault::LosesMessage,
        &FANOUT,
        &[check("lost", "==1"), check("duplicated", "==0"), check("misordered", "==0")],
    ),
    case(
        Fault::DoublesMessage,
        &FANOUT,
        &[check("duplicated", "==1"), check("lost", "==0"), check("misordered", "==0")],
    ),
    case(
        Fault::MisordersMessages,
        &FANOUT,
        &[check("misordered", "==1"), check("lost", "==0"), check("duplicated", "==0")],
    ),
    case(Fault::ChangesMessage, &FANOUT, &[check("corrupted", "==1"), check("lost", "==1")]),
    case(Fault::DeliversForeign, &FANOUT, &[check("foreign", "==1"), check("lost", "==0")]),
    case(
        Fault::SendsGap,
        &FANOUT,
        &[check("gaps", "==1"), check("gap_messages", "==1"), check("lost", "==1")],
    ),
    case(Fault::SkipsSeq, &FANOUT, &[check("misnumbered", "==5"), check("lost", "==0")]),
    case(Fault::DelaysMessages, &FANOUT, &[check("delivery_latency_ms.p50", ">=390"), check("lost", "==0")]),
    case(Fault::SkipsOnResume, &FANOUT_CUT, &[check("lost", "==5"), check("resumed", "==5")]),
    case(Fault::RepeatsOnResume, &FANOUT_CUT, &[check("duplicated", "==5"), check("lost", "==0")]),
    case(Fault::MisstatesSeqOnResume, &FANOUT_CUT, &[check("misnumbered", "==5"), check("lost", "==0")]),
    case(Fault::ForgetsSessions, &FANOUT_CUT, &[check("not_recovered", "==5"), check("resumed", "==0")]),
    case(
        Fault::ForgetsSessions,
        &STORM,
        &[check("error_kinds.not_recovered", "==5"), check("resumed", "==0")],
    ),
    case(Fault::RefusesToResume, &STORM, &[check("error_kinds.closed_4102", "==5"), check("resumed", "==0")]),
    case(Fault::ClosesEarly, &MUTE, &[check("early", "==5")]),
    case(Fault::ClosesLate, &MUTE, &[check("lateness_ms.p50", ">=500"), check("early", "==0")]),
    case(Fault::NeverCloses, &MUTE, &[check("still_open", "==5"), check("closed", "==0")]),
    case(
        Fault::ClosesWithWrongCode,
        &MUTE,
        &[check("other_closes", "==5"), check("close_codes.4001", "==5")],
    ),
    case(Fault::DisconnectsWithoutClose, &MUTE, &[check("close_codes.1006", "==5")]),
    case(Fault::ClosesAnsweringClients, &HOLD, &[check("unexpected_closes", "==5")]),
    case(
        Fault::ClosesAnsweringClients,
        &MUTE_HALF,
        &[check("unexpected_closes", ">=1"), check("closed", "==2")],
    ),
    case(Fault::PingsEarly, &HOLD, &[check("pings_early", ">=5"), check("unexpected_closes", "==0")]),
    case(Fault::PingsLate, &HOLD, &[check("ping_lateness_ms.p50", ">=200"), check("pings_early", "==0")]),
    case(Fault::NeverPings, &HOLD, &[check("pings", "==0"), check("unexpected_closes", "==0")]),
    case(Fault::SendsHelloLate, &HOLD, &[check("connect_ms.p50", ">=490"), check("errors", "==0")]),
    case(Fault::SendsHelloLate, &CHURN, &[check("connect_ms.p50", ">=490"), check("errors", "==0")]),
    case(Fault::ClosesAnsweringClients, &CHURN, &[check("unexpected_closes", ">=1"), check("errors", "==0")]),
    case(Fault::ClosesEarly, &LATE, &[check("closed_in_time", "==3"), check("missed", "==0")]),
    case(Fault::ClosesLate, &LATE, &[check("forgiven", "==2"), check("closed", "==0")]),
    case(Fault::TimesOutUpgradesEarly, &EXPIRE, &[check("early", "==5"), check("closed", "==5")]),
    case(Fault::TimesOutUpgradesLate, &EXPIRE, &[check("lateness_ms.p50", ">=490"), check("early", "==0")]),
    case(Fault::NeverTimesOutUpgrades, &EXPIRE, &[check("still_open", "==5"), check("closed", "==0")]),
    case(Fault::NeverPings, &LATE, &[check("still_open", "==2"), check("in_time", "==0")]),
    case(Fault::ForgetsSessions, &VANISH, &[check("early", "==3"), check("resumed", "==0")]),
    case(Fault::EndsSessionsEarly, &VANISH, &[check("early", "==3"), check("refused", "==2")]),
    case(Fault::KeepsSessionsTooLong, &VANISH, &[check("overdue", "==2"), check("resumed", "==3")]),
    case(Fault::KeepsSessionsTooLong, &RESUME, &[check("overdue", "==2"), check("refused", "==0")]),
    case(Fault::SkipsOnResume, &RESUME, &[check("lost", ">=1"), check("duplicated", "==0")]),
    case(Fault::RepeatsOnResume, &RESUME, &[check("duplicated", ">=1"), check("lost", "==0")]),
    case(Fault::ForgetsSessions, &RESUME, &[check("early", ">=1"), check("resumed", "==0")]),
    case(Fault::LeavesBothConnections, &TAKEOVER, &[check("still_open", "==5"), check("taken", "==5")]),
    case(Fault::ReplacesWithWrongCode, &TAKEOVER, &[check("other_closes", "==5"), check("replaced", "==0")]),
    case(
        Fault::ForgetsSessions,
        &TAKEOVER,
        &[check("error_kinds.not_recovered", "==5"), check("taken", "==0")],
    ),
    case(
        Fault::SendsWrongAcceptKey,
        &HOLD,
        &[check("error_kinds.upgrade", "==5"), check("connected", "==0")],
    ),
    case(
        Fault::SendsInvalidFrameForHello(InvalidFrame::Masked),
        &HOLD,
        &[check("error_kinds.frame_masked", "==5"), check("connected", "==0")],
    ),
    invalid_frame_case(
        InvalidFrame::ReservedBits,
        &[check("frame_faults.reserved_bits", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::UnknownOpcode,
        &[check("frame_faults.unknown_opcode", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::Masked,
        &[check("frame_faults.masked", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::LongForm,
        &[check("frame_faults.length_form", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::HighestBit,
        &[check("frame_faults.length_form", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::FragmentedControl,
        &[check("frame_faults.fragmented_control", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::LongControl,
        &[check("frame_faults.long_control", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::StrayContinuation,
        &[check("frame_faults.nothing_to_continue", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::MessageWithinMessage,
        &[check("frame_faults.message_within_message", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::HalfCloseCode,
        &[check("frame_faults.half_a_close_code", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::CloseCode,
        &[check("frame_faults.close_code", "==5"), check("close_codes.1002", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::NotUtf8,
        &[check("frame_faults.not_utf8", "==5"), check("close_codes.1007", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::FragmentedNotUtf8,
        &[check("frame_faults.not_utf8", "==5"), check("close_codes.1007", "==5")],
    ),
    invalid_frame_case(
        InvalidFrame::TooBig,
        &[check("frame_faults.too_big", "==5"), check("close_codes.1009", "==5")],
    ),
    case(Fault::NeverClosesStalledReaders, &SLOW, &[check("still_open", "==2"), check("closed", "==0")]),
    case(
        Fault::ClosesStalledReadersWithWrongCode,
        &SLOW,
        &[check("other_closes", "==2"), check("closed", "==0")],
    ),
    case(Fault::ClosesSlowReaders, &SLOW_READS, &[check("closed", "==2"), check("still_open", "==0")]),
];
