//! Opens and writes the outputs of a result. Files are opened before the run, so that a bad path does not
//! waste a run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{OutputOptions, abuse};
use crate::result::{Document, Group};

#[derive(Debug)]
pub(crate) struct Output {
    json: Option<File>,
    report: Option<ReportFiles>,
    stdout: Stdout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdout {
    Nothing,
    Table,
    Json,
    /// The result as the last of the JSON lines.
    JsonLine,
}

/// Files of `--report DIR`.
#[derive(Debug)]
struct ReportFiles {
    page: File,
    json: File,
    csv: File,
}

impl Output {
    pub(crate) fn open(options: &OutputOptions) -> Result<Self, String> {
        let to_stdout = |path: &&Path| *path == Path::new("-");
        let json = options.json.as_deref();
        let stdout = match json.filter(to_stdout) {
            Some(_) => Stdout::Json,
            None if options.json_lines => Stdout::JsonLine,
            None if options.quiet => Stdout::Nothing,
            None => Stdout::Table,
        };
        let json = json.filter(|path| !to_stdout(path)).map(create).transpose()?;
        let report = options.report.as_deref().map(ReportFiles::open).transpose()?;
        Ok(Self { json, report, stdout })
    }

    pub(crate) fn write(self, document: &Document) -> io::Result<()> {
        if let Some(mut file) = self.json {
            writeln!(file, "{}", document.to_json())?;
        }
        if let Some(report) = self.report {
            report.write(document)?;
        }
        let mut stdout = io::stdout();
        match self.stdout {
            Stdout::Nothing => Ok(()),
            Stdout::Table => {
                writeln!(stdout, "{}", document.to_table())?;
                abuse::to_markdown(document).map_or(Ok(()), |table| write!(stdout, "\n{table}"))
            }
            Stdout::Json => writeln!(stdout, "{}", document.to_json()),
            Stdout::JsonLine => {
                let line = Group::default().with("result", document.as_group().clone());
                writeln!(stdout, "{}", line.to_json_line())
            }
        }
    }
}

impl ReportFiles {
    fn open(directory: &Path) -> Result<Self, String> {
        fs::create_dir_all(directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        let create = |name| create(&directory.join(name));
        Ok(Self { page: create("index.html")?, json: create("result.json")?, csv: create("series.csv")? })
    }

    fn write(mut self, document: &Document) -> io::Result<()> {
        writeln!(self.json, "{}", document.to_json())?;
        self.csv.write_all(&document.series().to_csv().map_err(io::Error::other)?)?;
        self.page.write_all(crate::page::run_page(document).as_bytes())
    }
}

pub(crate) fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
