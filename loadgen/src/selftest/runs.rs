//! The runs of the self-test, and what each reports about an honest server.

/// Assertion on a report: a path and a comparison, as in `--assert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) path: &'static str,
    pub(super) comparison: &'static str,
}

/// Run of a scenario, with the same options against every server.
#[derive(Debug)]
pub(super) struct Run {
    /// Command line, with `URL` as a placeholder for the server's. The first word is the scenario.
    pub(super) words: &'static str,
    /// Assertions that hold for an honest server.
    pub(super) clean: &'static [Sign],
}

pub(super) const fn says(path: &'static str, comparison: &'static str) -> Sign {
    Sign { path, comparison }
}

/// Each of these also runs once against the honest server.
pub(super) const RUNS: [&Run; 14] = [
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

pub(super) static HOLD: Run = Run {
    words: "hold URL --connections 5 --rate 200 --duration 1s",
    clean: &[
        says("connected", "==5"),
        says("errors", "==0"),
        says("unexpected_closes", "==0"),
        says("pings", ">=10"),
        says("pings_early", "==0"),
        says("ping_lateness_ms.p50", "<150"),
        says("connect_ms.p50", "<300"),
    ],
};

pub(super) static MUTE: Run = Run {
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

pub(super) static MUTE_HALF: Run = Run {
    words: "mute URL --connections 5 --rate 200 --duration 2s --share 0.5",
    clean: &[
        says("errors", "==0"),
        says("closed", "==2"),
        says("early", "==0"),
        says("unexpected_closes", "==0"),
        says("lateness_ms.p50", "<300"),
    ],
};

/// Every other connection answers in time, the rest too late.
pub(super) static LATE: Run = Run {
    words: "late URL --connections 5 --rate 200 --duration 2s --margin 100ms",
    clean: &[
        says("errors", "==0"),
        says("missed", "==0"),
        says("closed_in_time", "==0"),
        says("closed", "==2"),
        says("forgiven", "==0"),
        says("early", "==0"),
        says("still_open", "==0"),
        says("other_closes", "==0"),
    ],
};

pub(super) static EXPIRE: Run = Run {
    words: "expire URL --connections 5 --rate 200 --duration 2s --after 1s --without upgrade",
    clean: &[
        says("errors", "==0"),
        says("connected", "==5"),
        says("closed", "==5"),
        says("early", "==0"),
        says("still_open", "==0"),
        says("lateness_ms.p50", "<300"),
    ],
};

/// Three clients reconnect within the window, two after it.
pub(super) static VANISH: Run = Run {
    words: "vanish URL --connections 5 --rate 200 --duration 200ms --margin 250ms",
    clean: &[
        says("errors", "==0"),
        says("killed", "==5"),
        says("resumed", "==3"),
        says("early", "==0"),
        says("refused", "==2"),
        says("overdue", "==0"),
        says("undecided", "==0"),
        says("unexpected_closes", "==0"),
    ],
};

pub(super) static TAKEOVER: Run = Run {
    words: "takeover URL --connections 5 --rate 200 --duration 300ms",
    clean: &[
        says("errors", "==0"),
        says("taken", "==5"),
        says("replaced", "==5"),
        says("other_closes", "==0"),
        says("still_open", "==0"),
        says("unexpected_closes", "==0"),
        says("replacement_ms.p50", "<300"),
    ],
};

pub(super) static CHURN: Run = Run {
    words: "churn URL --rate 30 --duration 1s --lifetime fixed:1h",
    clean: &[
        says("errors", "==0"),
        says("arrived", ">=10"),
        says("skipped", "==0"),
        says("unexpected_closes", "==0"),
        says("connect_ms.p50", "<300"),
    ],
};

pub(super) static STORM: Run = Run {
    words: "storm URL --connections 5 --rate 200 --duration 200ms",
    clean: &[
        says("errors", "==0"),
        says("dropped", "==5"),
        says("resumed", "==5"),
        says("unexpected_closes", "==0"),
    ],
};

/// Every published message arrives exactly once, in order and unchanged, and nothing else arrives.
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

pub(super) static FANOUT: Run = Run {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 100 --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, says("delivery_latency_ms.p50", "<300")]
    },
};

pub(super) static FANOUT_CUT: Run = Run {
    words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cut-after 300ms --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j, k, l] = ALL_ARRIVED;
        [a, b, c, d, e, f, g, h, i, j, k, l, says("resumed", "==5"), says("not_recovered", "==0")]
    },
};

/// Three clients lose their connection twice and reconnect in time; two lose it once and reconnect too late.
pub(super) static RESUME: Run = Run {
    words: "resume URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cuts 2 --away 200ms \
            --outside 0.4 --margin 250ms --grace 1s",
    clean: &[
        says("errors", "==0"),
        says("published", "==20"),
        says("received", "==60"),
        says("lost", "==0"),
        says("duplicated", "==0"),
        says("misordered", "==0"),
        says("misnumbered", "==0"),
        says("resumed", "==6"),
        says("early", "==0"),
        says("refused", "==2"),
        says("overdue", "==0"),
        says("undecided", "==0"),
        says("gone", "==0"),
        says("unexpected_closes", "==0"),
    ],
};

/// Two clients do not read at all.
pub(super) static SLOW: Run = Run {
    words: "slow URL --connections 5 --rate 1000 --messages 20 --publish-rate 10 --size 50000 --share 0.4 \
            --slow-for 100ms --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j] = OTHERS_HAD_ALL;
        [a, b, c, d, e, f, g, h, i, j, says("closed", "==2"), says("slow_ends.close_codes.4001", "==2")]
    },
};

/// Two clients read slowly, with pauses.
pub(super) static SLOW_READS: Run = Run {
    words: "slow URL --connections 5 --rate 1000 --messages 20 --publish-rate 10 --size 50000 --share 0.4 \
            --read-rate 300000 --read-every 400ms --slow-for 100ms --grace 1s",
    clean: &{
        let [a, b, c, d, e, f, g, h, i, j] = OTHERS_HAD_ALL;
        [a, b, c, d, e, f, g, h, i, j, says("closed", "==0"), says("still_open", "==2")]
    },
};

/// Two clients are slow and do not delay the other three.
const OTHERS_HAD_ALL: [Sign; 10] = [
    says("errors", "==0"),
    says("subscribed", "==5"),
    says("slow", "==2"),
    says("published", "==20"),
    says("received", "==60"),
    says("lost", "==0"),
    says("duplicated", "==0"),
    says("corrupted", "==0"),
    says("other_closes", "==0"),
    says("unexpected_closes", "==0"),
];

impl Run {
    pub(super) fn scenario(&self) -> &'static str {
        self.words.split(' ').next().unwrap_or_default()
    }
}
