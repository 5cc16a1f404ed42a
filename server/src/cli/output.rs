//! Output and exit codes of commands.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Exit code for invalid flags or configuration, the same as clap's.
const EXIT_USAGE: u8 = 2;

/// Prints errors of the command line or of the configuration, one per line.
pub(super) fn usage_error(errors: &dyn Display) -> ExitCode {
    for error in errors.to_string().lines() {
        print_error(&format!("encke: {error}"));
    }
    ExitCode::from(EXIT_USAGE)
}

pub(super) fn failure(message: &str) -> ExitCode {
    print_error(&format!("encke: {message}"));
    ExitCode::FAILURE
}

/// Prints the result of a command.
pub(super) fn print_result(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe because it has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failure(&format!("standard output: {error}")),
    }
}

pub(super) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

pub(super) fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
