//! The text that the server prints once it is running.

use super::VERSION;
use crate::Server;

/// Returns the server's addresses, a command to try it, and the limit of file descriptors.
#[must_use]
pub(super) fn banner(server: &Server, descriptors: u64) -> String {
    let (public, admin) = (server.public_address(), server.admin_address());
    let scheme = if server.has_tls() { "wss" } else { "ws" };
    let url = match server.needs_token() {
        true => format!("'{scheme}://{public}/ws?token=TOKEN'   (TOKEN: see encke token --help)"),
        false if server.has_connect_hook() => {
            format!("{scheme}://{public}/ws -H 'cookie: NAME=VALUE'   (or what backend.connect expects)")
        }
        false => format!("{scheme}://{public}/ws"),
    };
    let admin_scheme = if server.admin_has_tls() { "https" } else { "http" };
    format!(
        "encke {VERSION}
  clients      {scheme}://{public}/ws
  admin        {admin_scheme}://{admin}/
  descriptors  {descriptors}
  try it       npx wscat -c {url}
"
    )
}
