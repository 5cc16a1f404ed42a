//! Counts of a run, and the violation that ends it.

use std::fmt;

/// A violated invariant.
#[derive(Clone, Debug)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts of a run, or of all runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub schedules: u64,
    pub steps: u64,
    pub sessions: u64,
    pub resumed_elsewhere: u64,
    pub adopted: u64,
    pub taken: u64,
    pub fenced: u64,
    pub claimed_back: u64,
    pub faults: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            schedules,
            steps,
            sessions,
            resumed_elsewhere,
            adopted,
            taken,
            fenced,
            claimed_back,
            faults,
        } = other;
        self.schedules += schedules;
        self.steps += steps;
        self.sessions += sessions;
        self.resumed_elsewhere += resumed_elsewhere;
        self.adopted += adopted;
        self.taken += taken;
        self.fenced += fenced;
        self.claimed_back += claimed_back;
        self.faults += faults;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} schedules, {} steps, {} faults; ", self.schedules, self.steps, self.faults)?;
        write!(f, "{} sessions, {} resumed on another node ", self.sessions, self.resumed_elsewhere)?;
        write!(f, "({} taken from an owner that did not answer), ", self.taken)?;
        write!(f, "{} adopted, {} claimed back; ", self.adopted, self.claimed_back)?;
        write!(f, "{} operations fenced", self.fenced)
    }
}
