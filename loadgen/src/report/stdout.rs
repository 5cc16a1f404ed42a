use std::io::{self, ErrorKind, Write};

/// Writes a result to standard output. A reader that has closed the pipe, such as `head`, has read enough, so
/// this is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
