//! `encke generate`: man pages and completions for packages. They are generated from the definition of the
//! command line, so they always match the binary.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

#[derive(Subcommand)]
pub(crate) enum GenerateCommand {
    /// Write a man page for each command.
    Man {
        /// Directory to write them to.
        folder: PathBuf,
    },
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl GenerateCommand {
    /// Runs the command, and returns the text to print.
    pub(crate) fn execute(&self, command: &Command) -> Result<String, Box<dyn Error>> {
        match self {
            Self::Man { folder } => {
                let in_folder = |error| format!("{}: {error}", folder.display());
                man_pages(command, folder).map_err(in_folder)?;
                Ok(String::new())
            }
            Self::Completions { shell } => {
                let mut text = Vec::new();
                clap_complete::generate(*shell, &mut command.clone(), command.get_name(), &mut text);
                Ok(String::from_utf8(text)?)
            }
        }
    }
}

/// Writes `encke.1` and a page for each subcommand.
fn man_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    // Leave out `help`, whose man page would be of no use.
    let mut command = command.clone().disable_help_subcommand(true);
    // Set the full names of subcommands, such as encke-config-check, after which man pages are named.
    command.build();
    let mut page = Vec::new();
    let man = man_page(&command);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    extra_sections().to_writer(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)?;
    subcommand_pages(&command, folder)
}

fn subcommand_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    command.get_subcommands().try_for_each(|below| {
        man_page(below).generate_to(folder)?;
        subcommand_pages(below, folder)
    })
}

fn man_page(command: &Command) -> Man {
    // An empty date would be omitted, and man would take the next word for the date.
    Man::new(command.clone()).date(" ").manual("Encke").source(concat!("encke ", env!("CARGO_PKG_VERSION")))
}

/// Sections of the server's page that clap does not generate.
fn extra_sections() -> Roff {
    let mut page = Roff::default();
    for (title, entries) in [
        (
            "ENVIRONMENT",
            &[
                (
                    "ENCKE_SECTION__KEY",
                    "A configuration key, as in ENCKE_SESSION__PING_INTERVAL=20s. It overrides the file, and options override it.",
                ),
                ("RUST_LOG", "Log filter. It overrides log.level."),
                (
                    "LISTEN_FDS, NOTIFY_SOCKET, WATCHDOG_USEC",
                    "Set by systemd: inherited sockets, where to send notifications, and the watchdog interval.",
                ),
            ][..],
        ),
        (
            "SIGNALS",
            &[
                (
                    "SIGTERM, SIGINT",
                    "Drain: clients are asked to reconnect and have shutdown.drain to disconnect; then sessions and channels are saved to shutdown.snapshot. A second signal ends the process immediately.",
                ),
                ("SIGHUP", "Reload certificates and the token issuer's key set. Connections stay open."),
            ],
        ),
        (
            "EXIT STATUS",
            &[
                ("0", "Success."),
                ("1", "The server could not start, or a check failed."),
                ("2", "Invalid options or configuration."),
            ],
        ),
    ] {
        page.control("SH", [title]);
        for (term, meaning) in entries {
            page.control("TP", []);
            page.text([bold(*term)]);
            page.text([roman(*meaning)]);
        }
    }
    page
}
