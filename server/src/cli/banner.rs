//! The text that the server prints once it is running.

use std::fmt::Write;

use crate::Server;

/// Returns the server's addresses, a command to try it, and the limit of file descriptors.
#[must_use]
pub(super) fn banner(server: &Server, descriptors: u64) -> String {
    let (public, admin) = (server.public_address(), server.admin_address());
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "encke {version}");
    let scheme = if server.has_tls() { "wss" } else { "ws" };
    let _ = writeln!(text, "  clients      {scheme}://{public}/ws");
    let admin_scheme = if server.admin_has_tls() { "https" } else { "http" };
    let _ = writeln!(text, "  admin        {admin_scheme}://{admin}/");
    let _ = writeln!(text, "  descriptors  {descriptors}");
    let _ = writeln!(text, "  try it       npx wscat -c {scheme}://{public}/ws");
    text
}
