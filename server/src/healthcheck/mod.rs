//! `encke healthcheck`: asks a running server whether it is well, where there is nothing else to ask with, as in a container.

mod any_certificate;
mod exchange;
mod within;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use encke_server::clock::monotonic_now;
use encke_server::config::Settings;

use within::Within;

/// From the connection to the end of the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    /// Ask whether it takes new clients (/readyz), not whether it is well (/healthz).
    #[arg(long)]
    ready: bool,
    /// The server's configuration file. The environment counts, too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the server has its admin listener: the same as --set listen.admin=ADDR.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Any key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl HealthcheckArgs {
    /// What the server says, if it says yes.
    pub(crate) fn ask(self, environment: Vec<(String, String)>) -> Result<String, Box<dyn Error>> {
        let admin = self.admin.map(|address| format!("listen.admin={address}"));
        let flags = self.set.into_iter().chain(admin).collect();
        let settings = Settings { file: self.config, environment, flags, insecure: false };
        let admin = settings.admin_listener()?;
        let address = reachable(admin.address);
        let url_path = if self.ready { "/readyz" } else { "/healthz" };
        let described = |error| format!("{address}{url_path}: {error}");
        let answer = answer(address, url_path, admin.has_tls).map_err(described)?;
        match (answer.status, health_in(&answer.body)) {
            (200, Some(health)) if health == "ok" => Ok(format!("{{\"status\":\"{health}\"}}\n")),
            (status, Some(health)) => Err(format!("{address}{url_path}: {status} {health}").into()),
            (status, None) => Err(format!("{address}{url_path}: {status}, and no word of Encke's").into()),
        }
    }
}

/// How the server says it is. What something else says there may be meant for the terminal that shows it.
fn health_in(body: &str) -> Option<String> {
    let object: serde_json::Map<_, _> = serde_json::from_str(body).ok()?;
    let status = object.get("status")?.as_str()?;
    status.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then(|| status.to_owned())
}

fn answer(address: SocketAddr, path: &str, is_tls: bool) -> std::io::Result<exchange::Answer> {
    let until = monotonic_now() + ANSWER_WITHIN;
    let socket = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    let socket = Within::new(socket, until);
    if is_tls {
        exchange::ask(any_certificate::tls(socket, address.ip())?, address, path)
    } else {
        exchange::ask(socket, address, path)
    }
}

/// A server that listens on every address is reached by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
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
    fn where_a_server_is_reached() {
        for (listens, asked) in [
            ("127.0.0.1:8001", "127.0.0.1:8001"),
            ("0.0.0.0:8001", "127.0.0.1:8001"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            let [listens, asked] = [listens, asked].map(|text| text.parse().expect("an address"));
            assert_eq!(reachable(listens), asked);
        }
    }
}
