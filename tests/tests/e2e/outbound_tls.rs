use encke_tests::authority::Authority;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Client, Collector, Launch, RunningServer};
use serde_json::json;
use tempfile::TempDir;

use crate::webhooks::SECRET;

/// Server to which Encke connects over TLS: a webhook's backend, a trace collector or an issuer of tokens.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Webhook,
    Collector,
    Issuer,
}

impl Peer {
    /// Configures a server that connects to `backend` and trusts this authority.
    fn launch(self, backend: &Backend, authority: &Authority) -> Launch {
        let (url, ca) = (format!("https://{}/", backend.address), authority.path());
        let ca = ca.display();
        match self {
            Self::Webhook => Launch::default().set(&format!(
                "webhook=[{{url=\"{url}\",events=[\"session.opened\"],secret=\"{SECRET}\",ca=\"{ca}\"}}]"
            )),
            Self::Collector => {
                let collector = Collector { backend: backend.clone() };
                collector.server(&[]).set(&format!("trace.otlp={url}")).set(&format!("trace.ca={ca}"))
            }
            Self::Issuer => Launch::with(&[&format!("auth.jwks={url}"), &format!("auth.jwks_ca={ca}")]),
        }
    }

    /// Makes the server send something. An issuer is asked for its keys anyway.
    fn trigger(self, server: &RunningServer) {
        match self {
            Self::Webhook => drop(server.client()),
            Self::Collector => _ = server.admin.publish("news", 1),
            Self::Issuer => {}
        }
    }
}

#[test]
fn certificates_of_peers_are_verified() {
    let folder = TempDir::new().expect("a temporary directory can be created");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, private) = authority.issue("127.0.0.1", folder.path());
    let key = IssuerKey::generate("a");
    let query = format!("token={}", key.sign(&json!({"sub": "alice"})));
    for peer in [Peer::Webhook, Peer::Collector, Peer::Issuer] {
        let backend = Backend::start_tls(&certificate, &private);
        let keys = key_set([&key]);
        backend.reply_with(move |_| BackendReply::json(&keys));
        let server = peer.launch(&backend, &stranger).start();
        peer.trigger(&server);
        server.logs.await_line("invalid peer certificate");
        assert_eq!(backend.requests().len(), 0, "{peer:?}");
        let server = peer.launch(&backend, &authority).start();
        peer.trigger(&server);
        until(format!("{peer:?} receives a request"), || !backend.requests().is_empty());
        if matches!(peer, Peer::Issuer) {
            let _client = Client::connect(server.public, &query);
        }
    }
}
