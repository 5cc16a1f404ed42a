//! Checks reports against what they must contain.

use super::cases::Case;
use super::runs::{Run, Sign};
use crate::result::Document;
use crate::result::{Assertion, Verdict as Judgement};

/// Verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The fault was reported.
    Found,
    Missed,
    /// All assertions hold for the honest server.
    Clean,
    /// Some assertions do not hold for the honest server.
    Unclean,
}

impl Verdict {
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
    /// The fault counts as found if all assertions hold for the faulty server, but not for the honest one.
    pub(super) fn judge(&self, faulty: &Document, honest: &Document) -> Verdict {
        let shown = |report| self.signs.iter().all(|sign| sign.shows(report));
        if shown(faulty) && !shown(honest) { Verdict::Found } else { Verdict::Missed }
    }

    /// Returns the numbers of the report that reveal the fault.
    pub(super) fn told(&self, report: &Document) -> String {
        tell(self.signs.iter(), report)
    }
}

impl Run {
    pub(super) fn judge(&self, honest: &Document) -> Verdict {
        if self.clean.iter().all(|sign| sign.shows(honest)) { Verdict::Clean } else { Verdict::Unclean }
    }

    /// Returns the numbers of the report that an honest server should not have.
    pub(super) fn told(&self, report: &Document) -> String {
        let told = tell(self.clean.iter().filter(|sign| !sign.shows(report)), report);
        if told.is_empty() { "nothing".to_owned() } else { told }
    }
}

impl Sign {
    fn shows(&self, report: &Document) -> bool {
        self.assertion().is_ok_and(|assertion| matches!(assertion.judge(report), Judgement::Holds(_)))
    }

    fn assertion(&self) -> Result<Assertion, String> {
        format!("{}{}", self.path, self.comparison).parse()
    }
}

fn tell<'a>(signs: impl Iterator<Item = &'a Sign>, report: &Document) -> String {
    let told = signs.map(|sign| match report.number(sign.path) {
        Ok(number) => format!("{} {number}", sign.path),
        Err(_) => format!("{} -", sign.path),
    });
    told.collect::<Vec<_>>().join(", ")
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
    fn a_fault_is_found_when_its_report_says_so_and_the_honest_one_does_not() {
        let case = case(Fault::LosesMessage);
        assert_eq!(case.judge(&report(1), &report(0)), Verdict::Found);
        assert_eq!(case.told(&report(1)), "lost 1, duplicated 0, misordered 0");
        assert_eq!(case.judge(&report(0), &report(0)), Verdict::Missed, "not seen");
        assert_eq!(case.judge(&report(1), &report(1)), Verdict::Missed, "seen with the honest server too");
        assert_eq!(case.judge(&nothing(), &report(0)), Verdict::Missed, "no longer counted");
    }

    #[test]
    fn the_honest_server_is_clean_only_in_everything() {
        let run = RUNS.iter().find(|run| run.scenario() == "storm").expect("the run exists");
        let storm = |resumed: u64| {
            let counts = Group::default().with("errors", 0).with("dropped", 5).with("resumed", resumed);
            Document::of_numbers(counts.with("unexpected_closes", 0))
        };
        assert_eq!((run.judge(&storm(5)), run.told(&storm(5))), (Verdict::Clean, "nothing".to_owned()));
        assert_eq!((run.judge(&storm(4)), run.told(&storm(4))), (Verdict::Unclean, "resumed 4".to_owned()));
        assert_eq!(run.judge(&nothing()), Verdict::Unclean);
    }

    #[test]
    fn the_table_is_well_formed() {
        let signs = RUNS.iter().flat_map(|run| run.clean).chain(CASES.iter().flat_map(|case| case.signs));
        for sign in signs {
            assert!(sign.assertion().is_ok(), "{sign:?}");
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
