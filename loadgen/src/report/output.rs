//! Opens and writes the outputs of a result. Files are opened before the run, so that a bad path does not
//! waste a run.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::abuse;
use super::stdout::print;
use super::summary::summary;
use crate::result::{Assertion, Document};

/// Output options that all scenarios share.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputOptions {
    /// Write the result as JSON to this file, or with "-" to stdout instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    json: Option<PathBuf>,
    /// Write the result as a page with plots to this file
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    html: Option<PathBuf>,
    /// Exit with 99 unless this holds, like 'lost==0' or 'connect_ms.p99.9<2s' (repeatable)
    ///
    /// The path of a number, one of < <= > >= == !=, and a number. It may have the unit that the path names.
    #[arg(long = "assert", value_name = "EXPR", help_heading = "Result")]
    pub(crate) assertions: Vec<Assertion>,
    /// End the run as soon as an assertion can no longer hold. Every second, checks the assertions on numbers
    /// that only grow, like 'errors==0'
    #[arg(long, requires = "assertions", help_heading = "Result", hide_short_help = true)]
    pub(crate) abort_on_fail: bool,
    /// Print only errors and warnings
    #[arg(long, help_heading = "Result")]
    pub(crate) quiet: bool,
}

enum JsonTarget {
    Stdout,
    File(File),
}

pub(crate) struct Output {
    json: Option<JsonTarget>,
    html: Option<File>,
    has_table: bool,
}

impl Output {
    pub(crate) fn open(options: &OutputOptions) -> Result<Self, String> {
        let is_stdout = |path: &Path| path == Path::new("-");
        let json = match options.json.as_deref() {
            Some(path) if is_stdout(path) => Some(JsonTarget::Stdout),
            Some(path) => Some(JsonTarget::File(create(path)?)),
            None => None,
        };
        let html = options.html.as_deref().map(create).transpose()?;
        let has_table = !options.quiet && !options.json.as_deref().is_some_and(is_stdout);
        Ok(Self { json, html, has_table })
    }

    pub(crate) fn write(self, document: &Document) -> io::Result<()> {
        if let Some(target) = self.json {
            let json = format!("{}\n", serde_json::to_string_pretty(document)?);
            match target {
                JsonTarget::Stdout => print(&json)?,
                JsonTarget::File(mut file) => file.write_all(json.as_bytes())?,
            }
        }
        if let Some(mut file) = self.html {
            file.write_all(crate::page::run_page(document).as_bytes())?;
        }
        if self.has_table {
            let attacks = abuse::to_markdown(document).map_or_else(String::new, |table| format!("\n{table}"));
            print(&format!("{}\n{attacks}", summary(document)))?;
        }
        Ok(())
    }
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
