//! What came of a run, before it becomes a document.

use super::{Group, Run, Series};

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) run: Run,
    pub(crate) numbers: Group,
    pub(crate) series: Series,
}
