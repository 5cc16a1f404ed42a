//! Generates documents from the definitions in encke-server: man pages and shell completions for packages, and
//! the pages of the reference. They match the server that is built from the same sources, which contains none of
//! this code.

mod man;
mod reference;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use clap_complete::Shell;
use encke_server::cli;

/// Generates Encke's documents from its code.
#[derive(Parser)]
#[command(name = "encke-docs", version)]
enum DocsCommand {
    /// Write a man page for each command of `encke`.
    Man {
        /// Directory to write them to.
        folder: PathBuf,
    },
    /// Print shell completions for `encke`.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the pages of the reference: every configuration key, code, event and metric.
    Reference {
        /// Directory to write them to.
        folder: PathBuf,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = Vec::new();
    match DocsCommand::parse() {
        DocsCommand::Man { folder } => man::write_pages(cli::command(), &folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?,
        DocsCommand::Completions { shell } => {
            clap_complete::generate(shell, &mut cli::command(), "encke", &mut text);
        }
        DocsCommand::Reference { folder } => {
            for (name, page) in reference::pages() {
                let path = folder.join(name);
                std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    std::io::stdout().write_all(&text)?;
    Ok(std::io::stdout().flush()?)
}
