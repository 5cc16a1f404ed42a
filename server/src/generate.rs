//! `encke generate`: what a package has beside the binary. It is made from the command line's own definition, so it always fits the binary.

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
        /// The folder to write them to.
        folder: PathBuf,
    },
    /// Print what a shell completes.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl GenerateCommand {
    /// What is to be printed.
    pub(crate) fn carry_out(&self, command: &Command) -> Result<String, Box<dyn Error>> {
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

/// `encke.1`, and a page for each command below it.
fn man_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    // A page that tells how to get help would not help.
    let mut command = command.clone().disable_help_subcommand(true);
    // Gives commands the whole names by which man looks for their pages, as in encke-config-check.
    command.build();
    let mut page = Vec::new();
    let man = page_of(&command);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    what_no_option_says().to_writer(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)?;
    pages_below(&command, folder)
}

fn pages_below(command: &Command, folder: &Path) -> std::io::Result<()> {
    command.get_subcommands().try_for_each(|below| {
        page_of(below).generate_to(folder)?;
        pages_below(below, folder)
    })
}

fn page_of(command: &Command) -> Man {
    // An empty date would be left out, and the next word be taken for it.
    Man::new(command.clone()).date(" ").manual("Encke").source(concat!("encke ", env!("CARGO_PKG_VERSION")))
}

/// Of the server, beside its options.
fn what_no_option_says() -> Roff {
    let mut page = Roff::default();
    for (title, entries) in [
        (
            "ENVIRONMENT",
            &[
                (
                    "ENCKE_SECTION__KEY",
                    "A key of the configuration, as in ENCKE_SESSION__PING_INTERVAL=20s. It wins over the file; options win over it.",
                ),
                ("RUST_LOG", "A filter for the log. It wins over log.level."),
                (
                    "LISTEN_FDS, NOTIFY_SOCKET, WATCHDOG_USEC",
                    "What systemd hands over: open sockets, where to say how it is, and how often.",
                ),
            ][..],
        ),
        (
            "SIGNALS",
            &[
                (
                    "SIGTERM, SIGINT",
                    "Clients are told to come back, for at most shutdown.drain; sessions and channels are written to shutdown.snapshot. A second one ends the process at once.",
                ),
                ("SIGHUP", "Certificates and published keys are read anew. Connections stay."),
            ],
        ),
        (
            "EXIT STATUS",
            &[
                ("0", "It has ended as it was asked to."),
                ("1", "It could not start, or the answer is no."),
                ("2", "Wrong options, or a wrong configuration."),
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
