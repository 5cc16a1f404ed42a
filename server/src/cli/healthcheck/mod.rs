//! `encke healthcheck`: checks the health of a running server, for environments without an HTTP client, such
//! as containers.

mod request;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::Settings;
use clap::Args;
use hyper::StatusCode;

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    /// Check whether the server accepts new clients (/readyz) rather than whether it is healthy (/healthz).
    #[arg(long)]
    ready: bool,
    /// The server's configuration file. Environment variables apply as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the server's admin listener. Short for --set listen.admin=ADDR.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Set a configuration key. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl HealthcheckArgs {
    /// Returns the server's response if it is healthy.
    pub(crate) fn check(self, environment: Vec<(String, String)>) -> Result<String, Box<dyn Error>> {
        let admin = self.admin.map(|address| format!("listen.admin={address}"));
        let flags = self.set.into_iter().chain(admin).collect();
        let settings = Settings { file: self.config, environment, flags, insecure: false };
        let admin = settings.admin_listener()?;
        let address = reachable_address(admin.address);
        let url_path = if self.ready { "/readyz" } else { "/healthz" };
        let described = |error| format!("{address}{url_path}: {error}");
        let (status, body) = request::get(address, url_path, admin.has_tls).map_err(described)?;
        match (status, parse_health(&body)) {
            (StatusCode::OK, Some(health)) if health == "ok" => Ok(format!("{{\"status\":\"{health}\"}}\n")),
            (status, Some(health)) => {
                Err(format!("{address}{url_path}: {} {health}", status.as_u16()).into())
            }
            (status, None) => {
                Err(format!("{address}{url_path}: {}, but this is not Encke", status.as_u16()).into())
            }
        }
    }
}

/// Extracts the status from a response. Other text is rejected, since another program may have sent it to
/// manipulate the terminal.
fn parse_health(body: &[u8]) -> Option<String> {
    let object: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    let status = object.get("status")?.as_str()?;
    status.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then(|| status.to_owned())
}

/// Returns the address at which to reach a listener: a loopback address if it listens on all addresses.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_are_reached_by_loopback() {
        for (listens, asked) in [
            ("127.0.0.1:8001", "127.0.0.1:8001"),
            ("0.0.0.0:8001", "127.0.0.1:8001"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            let [listens, asked] = [listens, asked].map(|text| text.parse().expect("an address"));
            assert_eq!(reachable_address(listens), asked);
        }
    }
}
