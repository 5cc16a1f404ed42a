//! Output of results: tables on stdout; JSON and pages in files.

mod abuse;
mod output;
mod stdout;
mod summary;

pub(crate) use self::output::{Output, OutputOptions};
pub(crate) use self::stdout::print;
