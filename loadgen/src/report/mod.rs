//! Output of results: tables on stdout; JSON, CSV and pages in files.

mod abuse;
mod compare;
mod options;
mod output;

pub(crate) use self::compare::Compare;
pub(crate) use self::options::OutputOptions;
pub(crate) use self::output::Output;
