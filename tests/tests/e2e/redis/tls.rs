use std::path::PathBuf;

use encke_tests::authority::Authority;
use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::{Launch, RunningServer};
use tempfile::TempDir;

use super::{assert_message, assert_unavailable, await_connected, launch_at};

/// Certificate and key in a directory.
struct CertificateFiles {
    directory: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// Issues a certificate for this name.
    fn of(authority: &Authority, name: &str) -> Self {
        let directory = TempDir::new().expect("a temporary directory can be created");
        let (certificate, key) = authority.issue(name, directory.path());
        Self { directory, certificate, key }
    }
}

fn redis_without_client_certificates(files: &CertificateFiles) -> Redis {
    // Redis requires a trusted authority even if it does not request client certificates.
    let trusted = files.certificate.display().to_string();
    let options = ["--tls-auth-clients", "no", "--tls-ca-cert-file", &trusted];
    Redis::behind_tls(&files.certificate, &files.key, &options)
}

/// Configures a server that trusts only this authority.
fn launch(redis: &Redis, authority: &Authority) -> Launch {
    launch_at(redis.tls_url()).set(&format!("engine.ca={}", authority.path().display()))
}

#[track_caller]
fn assert_serves(server: &RunningServer) {
    await_connected(server, true);
    let mut client = server.client();
    client.subscribe("news");
    let offset = server.admin.publish("news", "over TLS")["offset"].as_u64().expect("an offset");
    assert_message(&mut client, offset, "over TLS");
}

#[test]
fn channels_work_over_tls() {
    let authority = Authority::new();
    let files = CertificateFiles::of(&authority, "localhost");
    let redis = redis_without_client_certificates(&files);
    let server = launch(&redis, &authority).start();
    assert_serves(&server);
    // The authority may also be trusted by the machine.
    assert_serves(&launch_at(redis.tls_url()).environment("SSL_CERT_FILE", authority.path()).start());
}

/// Redis is rejected until its certificate is replaced with a valid one.
#[test]
fn invalid_certificates_are_rejected() {
    let (ours, other) = (Authority::new(), Authority::new());
    for (authority, name, problem) in [
        (&other, "localhost", "not issued by a trusted authority (engine.ca)"),
        (&ours, "elsewhere.example", "not valid for name"),
    ] {
        let files = CertificateFiles::of(authority, name);
        let mut redis = redis_without_client_certificates(&files);
        let server = launch(&redis, &ours).start();
        server.logs.await_line(problem);
        assert_unavailable(&server);
        redis.kill();
        ours.issue("localhost", files.directory.path());
        redis.restart();
        assert_serves(&server);
        assert_eq!(server.logs.count(problem), 1, "logged once for all attempts");
    }
}

#[test]
fn redis_may_require_client_certificates() {
    let authority = Authority::new();
    let files = CertificateFiles::of(&authority, "localhost");
    let trusted = authority.path().display().to_string();
    let options = ["--tls-auth-clients", "yes", "--tls-ca-cert-file", &trusted];
    let redis = Redis::behind_tls(&files.certificate, &files.key, &options);
    let stranger = launch(&redis, &authority).start();
    stranger.logs.await_line("CertificateRequired");
    assert_unavailable(&stranger);
    let own = CertificateFiles::of(&authority, "encke");
    let server = launch(&redis, &authority)
        .set(&format!("engine.certificate={}", own.certificate.display()))
        .set(&format!("engine.key={}", own.key.display()))
        .start();
    assert_serves(&server);
}

#[test]
fn unusable_files_are_errors_at_start() {
    let authority = Authority::new();
    let [own, other] = [(); 2].map(|()| CertificateFiles::of(&authority, "encke"));
    let ca = format!("engine.ca={}", authority.path().display());
    let certificate = format!("engine.certificate={}", own.certificate.display());
    let other_key = format!("engine.key={}", other.key.display());
    let key_as_ca = format!("engine.ca={}", own.key.display());
    let no_store = [("SSL_CERT_FILE", "/no/such/file"), ("SSL_CERT_DIR", "/no/such")];
    for (settings, environment, problem) in [
        (&["engine.ca=/no/such/file"][..], &[][..], "engine.ca"),
        (&[&key_as_ca], &[], "contains no PEM certificate"),
        (&[&ca, &certificate, &other_key], &[], "does not belong to the certificate"),
        (&[], &no_store, "engine.ca"),
    ] {
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        for setting in ["engine.kind=redis", "engine.url=rediss://localhost"].iter().chain(settings) {
            arguments.extend(["--set", setting]);
        }
        run_to_end(&arguments, environment).assert_failed(2, &[problem]);
    }
}
