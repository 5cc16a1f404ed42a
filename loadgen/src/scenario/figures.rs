//! Properties of a scenario's result that are known before the scenario runs.

/// Properties of the result that the scenario's empty outcome does not show.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Names of the scenario's phases, in order.
    pub(crate) phases: Vec<String>,
    /// Prefixes of the paths that the result has only if the server sends the respective data.
    pub(crate) conditional: Vec<&'static str>,
    /// Prefixes of the paths at which nothing will be measured with the options of this run.
    pub(crate) unmeasured: Vec<&'static str>,
}

impl Figures {
    pub(super) fn of_phases<const N: usize>(phases: [&str; N]) -> Self {
        Self { phases: phases.map(str::to_owned).into(), ..Self::default() }
    }

    pub(super) fn with_conditional(self, later: Vec<&'static str>) -> Self {
        Self { conditional: later, ..self }
    }

    pub(super) fn with_unmeasured(self, never: Vec<&'static str>) -> Self {
        Self { unmeasured: never, ..self }
    }
}
