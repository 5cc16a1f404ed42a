//! Man pages, generated from the definition of the command line.

use std::fs;
use std::io::Result;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes `encke.1` and a page for each subcommand.
pub(crate) fn write_pages(command: Command, folder: &Path) -> Result<()> {
    // Leave out `help`, whose man page would be of no use.
    let mut command = command.disable_help_subcommand(true);
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

fn subcommand_pages(command: &Command, folder: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        write_pages(encke_server::cli::command(), folder.path()).expect("the folder is writable");
        let page = |name| fs::read_to_string(folder.path().join(name)).expect(name);
        for name in ["encke-config.1", "encke-config-check.1", "encke-snapshot-show.1", "encke-token.1"] {
            assert!(page(name).contains("DESCRIPTION"), "{name}");
        }
        let page = page("encke.1");
        for part in ["encke\\-token(1)", "SIGTERM", "ENCKE_SECTION__KEY", "EXIT STATUS", "\\-\\-insecure"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
