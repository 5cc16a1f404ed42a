//! Compares reports with what they must contain.

use super::cases::Case;
use super::runs::{ReportCheck, SelfTestRun};
use crate::result::Document;
use crate::result::{Assertion, Verdict as Judgement};

/// Verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseVerdict {
    /// The fault was reported.
    Found,
    Missed,
    /// All assertions hold for the honest server.
    Clean,
    /// Some assertions do not hold for the honest server.
    Unclean,
}

impl CaseVerdict {
    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Found | Self::Clean)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Missed => "MISSED",
            Self::Clean => "clean",
            Self::Unclean => "NOT CLEAN",
        }
    }
}

impl Case {
    /// Judges a case: the fault counts as found if all assertions hold for the faulty server, but not for the
    /// honest one.
    pub(super) fn judge(&self, faulty: &Document, honest: &Document) -> CaseVerdict {
        let shown = |report| self.checks.iter().all(|check| check.holds_in(report));
        if shown(faulty) && !shown(honest) { CaseVerdict::Found } else { CaseVerdict::Missed }
    }

    /// Returns the numbers of the report that reveal the fault.
    pub(super) fn reported(&self, report: &Document) -> String {
        format_checks(self.checks.iter(), report)
    }
}

impl SelfTestRun {
    pub(super) fn judge(&self, honest: &Document) -> CaseVerdict {
        if self.honest_checks.iter().all(|check| check.holds_in(honest)) {
            CaseVerdict::Clean
        } else {
            CaseVerdict::Unclean
        }
    }

    /// Returns the numbers of the report that should not occur with an honest server.
    pub(super) fn reported(&self, report: &Document) -> String {
        let reported =
            format_checks(self.honest_checks.iter().filter(|check| !check.holds_in(report)), report);
        if reported.is_empty() { "nothing".to_owned() } else { reported }
    }
}

impl ReportCheck {
    fn holds_in(&self, report: &Document) -> bool {
        self.assertion().is_ok_and(|assertion| matches!(assertion.judge(report), Judgement::Holds(_)))
    }

    fn assertion(&self) -> Result<Assertion, String> {
        format!("{}{}", self.path, self.comparison).parse()
    }
}

fn format_checks<'a>(checks: impl Iterator<Item = &'a ReportCheck>, report: &Document) -> String {
    let reported = checks.map(|check| match report.number(check.path) {
        Ok(number) => format!("{} {number}", check.path),
        Err(_) => format!("{} -", check.path),
    });
    reported.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::super::cases::CASES;
    use super::super::fault::Fault;
    use super::super::runs::RUNS;
    use super::*;
    use crate::args::LoadgenArgs;
    use crate::result::Group;

    fn case(fault: Fault) -> &'static Case {
        CASES.iter().find(|case| case.fault == fault).expect("every fault has a case")
    }

    fn nothing() -> Document {
        Document::of_numbers(Group::default())
    }

    fn report(lost: u64) -> Document {
        let counts = Group::default().with("lost", lost).with("duplicated", 0).with("misordered", 0);
        Document::of_numbers(counts)
    }

    #[test]
    fn a_fault_is_found_if_only_the_faulty_report_shows_it() {
        let case = case(Fault::LosesMessage);
        assert_eq!(case.judge(&report(1), &report(0)), CaseVerdict::Found);
        assert_eq!(case.reported(&report(1)), "lost 1, duplicated 0, misordered 0");
        assert_eq!(case.judge(&report(0), &report(0)), CaseVerdict::Missed, "not seen");
        assert_eq!(
            case.judge(&report(1), &report(1)),
            CaseVerdict::Missed,
            "seen with the honest server too"
        );
        assert_eq!(case.judge(&nothing(), &report(0)), CaseVerdict::Missed, "no longer counted");
    }

    #[test]
    fn the_honest_server_must_pass_every_check() {
        let run = RUNS.iter().find(|run| run.scenario() == "storm").expect("the run exists");
        let storm = |resumed: u64| {
            let counts = Group::default().with("errors", 0).with("dropped", 5).with("resumed", resumed);
            Document::of_numbers(counts.with("unexpected_closes", 0))
        };
        assert_eq!(
            (run.judge(&storm(5)), run.reported(&storm(5))),
            (CaseVerdict::Clean, "nothing".to_owned())
        );
        assert_eq!(
            (run.judge(&storm(4)), run.reported(&storm(4))),
            (CaseVerdict::Unclean, "resumed 4".to_owned())
        );
        assert_eq!(run.judge(&nothing()), CaseVerdict::Unclean);
    }

    #[test]
    fn the_table_is_well_formed() {
        let checks =
            RUNS.iter().flat_map(|run| run.honest_checks).chain(CASES.iter().flat_map(|case| case.checks));
        for check in checks {
            assert!(check.assertion().is_ok(), "{check:?}");
        }
        for run in RUNS {
            let words = format!("loadgen {}", run.words.replace("URL", "ws://127.0.0.1:1/ws"));
            assert!(LoadgenArgs::try_parse_from(words.split(' ')).is_ok(), "{words}");
        }
        let known: BTreeSet<_> = RUNS.iter().map(|run| run.words).collect();
        assert!(
            CASES.iter().all(|case| known.contains(case.run.words)),
            "each run also has an honest server"
        );
    }
}
