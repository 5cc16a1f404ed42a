//! What is known of a scenario's figures before it has run.

/// Beside those that its empty outcome has.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The names of its phases, in their order.
    pub(crate) phases: Vec<String>,
    /// How the paths begin that its result has only if the server says something.
    pub(crate) later: Vec<&'static str>,
    /// How the paths begin at which nothing will be measured with the options of this run.
    pub(crate) never: Vec<&'static str>,
}

impl Figures {
    pub(super) fn of_phases<const N: usize>(phases: [&str; N]) -> Self {
        Self { phases: phases.map(str::to_owned).into(), ..Self::default() }
    }

    pub(super) fn with_later(self, later: Vec<&'static str>) -> Self {
        Self { later, ..self }
    }

    pub(super) fn with_never(self, never: Vec<&'static str>) -> Self {
        Self { never, ..self }
    }
}
