//! `loadgen compare`: a table and a page of several results.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::output::create;
use crate::page;
use crate::result::{Compared, Document, names, to_table};

#[derive(Clone, Debug, Args)]
pub(crate) struct Compare {
    /// Results written by --json or --report; the first one is the base
    #[arg(required = true, num_args = 2.., value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Also write compare.html with plots to this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut results = Vec::new();
        for (path, name) in self.results.iter().zip(names(&self.results)) {
            results.push(Compared { name, document: Document::read(path)? });
        }
        let table = to_table(&results);
        if let Some(directory) = &self.report {
            write_page(directory, &results)?;
        }
        writeln!(io::stdout(), "{table}").map_err(|error| format!("cannot write the comparison: {error}"))
    }
}

fn write_page(directory: &Path, results: &[Compared]) -> Result<(), String> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    let path = directory.join("compare.html");
    let mut file = create(&path)?;
    file.write_all(page::comparison_page(results).as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
