//! Which run is to find which fault, and by what.

use super::fault::Fault;

/// Something that a report says: a number by its path, and how it compares, as in `--assert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) path: &'static str,
    pub(super) comparison: &'static str,
}

/// A run of a scenario, the same against every server.
#[derive(Debug)]
pub(super) struct Run {
    /// The command line, with `URL` where the server's goes. Its first word is the scenario.
    pub(super) words: &'static str,
    /// What it reports of an honest server.
    pub(super) clean: &'static [Sign],
}

/// A fault that a run must report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) run: &'static Run,
    /// All of this must be reported; and not of an honest server, or it would be no sign of the fault.
    pub(super) signs: &'static [Sign],
}

const fn says(path: &'static str, comparison: &'static str) -> Sign {
    Sign { path, comparison }
}

const fn case(fault: Fault, run: &'static Run, signs: &'static [Sign]) -> Case {
    Case { fault, run, signs }
}

/// Each is run once against the honest server.
pub(super) const RUNS: [&Run; 6] = [&HOLD, &MUTE, &MUTE_HALF, &STORM, &FANOUT, &FANOUT_CUT];

static HOLD: Run = Run {
    words: "hold URL --connections 5 --rate 200 --duration 1s",
    clean: &[
        says("connected", "==5"),
        says("errors", "==0"),
        says("unexpected_closes", "==0"),
        says("pings", ">=10"),
        says("connect_ms.p50", "<300"),
    ],
};

static MUTE: Run = Run {
    words: "mute URL --connections 5 --rate 200 --duration 2s",
    clean: &[
        says("errors", "==0"),
        says("muted", "==5"),
        says("closed", "==5"),
        says("early", "==0"),
        says("still_open", "==0"),
        says("other_closes", "==0"),
        says("close_codes.4000", "==5"),
        says("lateness_ms.p50", "<300"),
    ],
};

static MUTE_HALF: Run = Run {
    words: "mute URL --connections 5 --rate 200 --duration 2s --share 0.5",
    clean: &[
        says("errors", "==0"),
        says("closed", "==2"),
        says("early", "==0"),
        says("unexpected_closes", "==0"),
        says("lateness_ms.p50", "<300"),
    ],
};

static STORM: Run = Run {
    words: "storm URL --connections 5 --rate 200 --duration 200ms",
    clean: &[
        says("errors", "==0"),
        says("dropped", "==5"),
        says("resumed", "==5"),
        says("unexpected_closes", "==0"),
    ],
};

/// Nothing that was published is lost, doubled, out of order, spoilt, or delivered but not published.
const ALL_ARRIVED: [Sign; 12] = [
    says("errors", "==0"),
    says("subscribed", "==5"),
    says("published", "==20"),
    says("received", "==100"),
    says("lost", "==0"),
    says("duplicated", "==0"),
    says("misordered", "==0"),
    says("foreign", "==0"),
    says("corrupted", "==0"),
    says("misnumbered", "==0"),
    says("gaps", "==0"),
    says("unexpected_closes", "==0"),
];

static FANOUT: Run = Run {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 100 --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, says("delivery_latency_ms.p50", "<300")]
    },
};

static FANOUT_CUT: Run = Run {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cut-after 300ms --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, says("resumed", "==5"), says("not_recovered", "==0")]
    },
};

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
    case(Fault::NeverPings, &HOLD, &[says("pings", "==0"), says("unexpected_closes", "==0")]),
    case(Fault::GreetsLate, &HOLD, &[says("connect_ms.p50", ">=490"), says("errors", "==0")]),
];

impl Run {
    pub(super) fn scenario(&self) -> &'static str {
        self.words.split(' ').next().unwrap_or_default()
    }
}
