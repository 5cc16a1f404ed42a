//! The runs of the self-test, and what each reports about an honest server.

/// Assertion on a report: a path and a comparison, as in `--assert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportCheck {
    pub(super) path: &'static str,
    pub(super) comparison: &'static str,
}

/// A run of a scenario. It has the same options for every server.
#[derive(Debug)]
pub(super) struct SelfTestRun {
    /// Command line, with `URL` as a placeholder for the server's URL. The first word is the scenario.
    pub(super) words: &'static str,
    /// Assertions that hold for an honest server.
    pub(super) honest_checks: &'static [ReportCheck],
}

pub(super) const fn check(path: &'static str, comparison: &'static str) -> ReportCheck {
    ReportCheck { path, comparison }
}

/// The runs. Each of them also runs once against the honest server.
pub(super) const RUNS: [&SelfTestRun; 14] = [
    &HOLD,
    &MUTE,
    &MUTE_HALF,
    &LATE,
    &EXPIRE,
    &VANISH,
    &TAKEOVER,
    &STORM,
    &CHURN,
    &FANOUT,
    &FANOUT_CUT,
    &RESUME,
    &SLOW,
    &SLOW_READS,
];

pub(super) static HOLD: SelfTestRun = SelfTestRun {
    words: "hold URL --connections 5 --rate 200 --duration 1s",
    honest_checks: &[
        check("connected", "==5"),
        check("errors", "==0"),
        check("unexpected_closes", "==0"),
        check("pings", ">=10"),
        check("pings_early", "==0"),
        check("ping_lateness_ms.p50", "<150"),
        check("connect_ms.p50", "<300"),
    ],
};

pub(super) static MUTE: SelfTestRun = SelfTestRun {
    words: "mute URL --connections 5 --rate 200 --duration 2s",
    honest_checks: &[
        check("errors", "==0"),
        check("muted", "==5"),
        check("closed", "==5"),
        check("early", "==0"),
        check("still_open", "==0"),
        check("other_closes", "==0"),
        check("close_codes.4000", "==5"),
        check("lateness_ms.p50", "<300"),
    ],
};

pub(super) static MUTE_HALF: SelfTestRun = SelfTestRun {
    words: "mute URL --connections 5 --rate 200 --duration 2s --share 0.5",
    honest_checks: &[
        check("errors", "==0"),
        check("closed", "==2"),
        check("early", "==0"),
        check("unexpected_closes", "==0"),
        check("lateness_ms.p50", "<300"),
    ],
};

/// A run in which every other connection answers in time, and the rest too late.
pub(super) static LATE: SelfTestRun = SelfTestRun {
    words: "late URL --connections 5 --rate 200 --duration 2s --margin 100ms",
    honest_checks: &[
        check("errors", "==0"),
        check("missed", "==0"),
        check("closed_in_time", "==0"),
        check("closed", "==2"),
        check("forgiven", "==0"),
        check("early", "==0"),
        check("still_open", "==0"),
        check("other_closes", "==0"),
    ],
};

pub(super) static EXPIRE: SelfTestRun = SelfTestRun {
    words: "expire URL --connections 5 --rate 200 --duration 2s --after 1s --without upgrade",
    honest_checks: &[
        check("errors", "==0"),
        check("connected", "==5"),
        check("closed", "==5"),
        check("early", "==0"),
        check("still_open", "==0"),
        check("lateness_ms.p50", "<300"),
    ],
};

/// A run in which three clients reconnect within the window, and two after it.
pub(super) static VANISH: SelfTestRun = SelfTestRun {
    words: "vanish URL --connections 5 --rate 200 --duration 200ms --margin 250ms",
    honest_checks: &[
        check("errors", "==0"),
        check("killed", "==5"),
        check("resumed", "==3"),
        check("early", "==0"),
        check("refused", "==2"),
        check("overdue", "==0"),
        check("undecided", "==0"),
        check("unexpected_closes", "==0"),
    ],
};

pub(super) static TAKEOVER: SelfTestRun = SelfTestRun {
    words: "takeover URL --connections 5 --rate 200 --duration 300ms",
    honest_checks: &[
        check("errors", "==0"),
        check("taken", "==5"),
        check("replaced", "==5"),
        check("other_closes", "==0"),
        check("still_open", "==0"),
        check("unexpected_closes", "==0"),
        check("replacement_ms.p50", "<300"),
    ],
};

pub(super) static CHURN: SelfTestRun = SelfTestRun {
    words: "churn URL --rate 30 --duration 1s --lifetime fixed:1h",
    honest_checks: &[
        check("errors", "==0"),
        check("arrived", ">=10"),
        check("skipped", "==0"),
        check("unexpected_closes", "==0"),
        check("connect_ms.p50", "<300"),
    ],
};

pub(super) static STORM: SelfTestRun = SelfTestRun {
    words: "storm URL --connections 5 --rate 200 --duration 200ms",
    honest_checks: &[
        check("errors", "==0"),
        check("dropped", "==5"),
        check("resumed", "==5"),
        check("unexpected_closes", "==0"),
    ],
};

/// Checks that every published message arrives exactly once, in order and unchanged, and that nothing else
/// arrives.
const ALL_ARRIVED: [ReportCheck; 12] = [
    check("errors", "==0"),
    check("subscribed", "==5"),
    check("published", "==20"),
    check("received", "==100"),
    check("lost", "==0"),
    check("duplicated", "==0"),
    check("misordered", "==0"),
    check("foreign", "==0"),
    check("corrupted", "==0"),
    check("misnumbered", "==0"),
    check("gaps", "==0"),
    check("unexpected_closes", "==0"),
];

pub(super) static FANOUT: SelfTestRun = SelfTestRun {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 100 --grace 1s",
    honest_checks: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, check("delivery_latency_ms.p50", "<300")]
    },
};

pub(super) static FANOUT_CUT: SelfTestRun = SelfTestRun {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cut-after 300ms --grace 1s",
    honest_checks: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, check("resumed", "==5"), check("not_recovered", "==0")]
    },
};

/// A run in which three clients lose their connection twice and reconnect in time, and two lose it once and
/// reconnect too late.
pub(super) static RESUME: SelfTestRun = SelfTestRun {
    words: "resume URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cuts 2 --away 200ms \
            --outside 0.4 --margin 250ms --grace 1s",
    honest_checks: &[
        check("errors", "==0"),
        check("published", "==20"),
        check("received", "==60"),
        check("lost", "==0"),
        check("duplicated", "==0"),
        check("misordered", "==0"),
        check("misnumbered", "==0"),
        check("resumed", "==6"),
        check("early", "==0"),
        check("refused", "==2"),
        check("overdue", "==0"),
        check("undecided", "==0"),
        check("gone", "==0"),
        check("unexpected_closes", "==0"),
    ],
};

/// A run in which two clients do not read at all.
pub(super) static SLOW: SelfTestRun = SelfTestRun {
    words: "slow URL --connections 5 --rate 1000 --messages 20 --publish-rate 10 --size 50000 --share 0.4 \
            --slow-for 100ms --grace 1s",
    honest_checks: &{
        let [a, b, c, d, e, f, g, h, i, j] = OTHERS_UNAFFECTED;
        [a, b, c, d, e, f, g, h, i, j, check("closed", "==2"), check("slow_ends.close_codes.4001", "==2")]
    },
};

/// A run in which two clients read slowly, with pauses.
pub(super) static SLOW_READS: SelfTestRun = SelfTestRun {
    words: "slow URL --connections 5 --rate 1000 --messages 20 --publish-rate 10 --size 50000 --share 0.4 \
            --read-rate 300000 --read-every 400ms --slow-for 100ms --grace 1s",
    honest_checks: &{
        let [a, b, c, d, e, f, g, h, i, j] = OTHERS_UNAFFECTED;
        [a, b, c, d, e, f, g, h, i, j, check("closed", "==0"), check("still_open", "==2")]
    },
};

/// Checks for runs in which two clients are slow: they must not delay the other three.
const OTHERS_UNAFFECTED: [ReportCheck; 10] = [
    check("errors", "==0"),
    check("subscribed", "==5"),
    check("slow", "==2"),
    check("published", "==20"),
    check("received", "==60"),
    check("lost", "==0"),
    check("duplicated", "==0"),
    check("corrupted", "==0"),
    check("other_closes", "==0"),
    check("unexpected_closes", "==0"),
];

impl SelfTestRun {
    pub(super) fn scenario(&self) -> &'static str {
        self.words.split(' ').next().unwrap_or_default()
    }
}
