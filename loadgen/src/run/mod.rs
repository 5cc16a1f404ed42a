//! One run of a scenario, in this process or spread over several.

mod check;
mod drive;
mod measure;

pub(crate) use self::check::meaningless_assertions;
pub(crate) use self::drive::drive;
pub(crate) use self::measure::measure;
