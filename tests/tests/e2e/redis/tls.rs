use std::path::PathBuf;

use encke_tests::authority::Authority;
use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer};
use serde_json::json;
use tempfile::TempDir;

use super::nodes::assert_message;

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

    /// Replaces the files with a newly issued certificate and key.
    fn replace(&self, authority: &Authority, name: &str) {
        authority.issue(name, self.directory.path());
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
    Launch::with(&["engine.kind=redis", &format!("engine.url={}", redis.tls_url())])
        .set(&format!("engine.ca={}", authority.path().display()))
}

#[track_caller]
fn assert_serves(server: &RunningServer) {
    until("the server is connected to Redis", || server.admin.metrics().value("encke_engine_up") == 1.0);
    let mut client = server.client();
    client.subscribe("news");
    let offset = server.admin.publish("news", "over TLS")["offset"].as_u64().expect("an offset");
    assert_message(&mut client, offset, &json!("over TLS"));
}

/// Asserts that Redis is rejected for this reason until its certificate is replaced with a valid one.
#[track_caller]
fn assert_rejected_until_replaced(
    mut redis: Redis,
    files: &CertificateFiles,
    authority: &Authority,
    why: &str,
) {
    let server = launch(&redis, authority).start();
    server.logs.await_line(why);
    let answer = server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "unavailable"), "{answer:?}");
    redis.kill();
    files.replace(authority, "localhost");
    redis.restart();
    assert_serves(&server);
    assert_eq!(server.logs.count(why), 1, "logged once for all attempts");
}

#[test]
fn channels_work_over_tls() {
    let authority = Authority::new();
    let files = CertificateFiles::of(&authority, "localhost");
    let redis = redis_without_client_certificates(&files);
    let server = launch(&redis, &authority).start();
    assert_serves(&server);
    // The authority may also be trusted by the machine.
    let machine = Launch::with(&["engine.kind=redis", &format!("engine.url={}", redis.tls_url())])
        .environment("SSL_CERT_FILE", authority.path())
        .start();
    assert_serves(&machine);
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let files = CertificateFiles::of(&other, "localhost");
    let redis = redis_without_client_certificates(&files);
    assert_rejected_until_replaced(redis, &files, &ours, "not issued by a trusted authority (engine.ca)");
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let files = CertificateFiles::of(&authority, "elsewhere.example");
    let redis = redis_without_client_certificates(&files);
    assert_rejected_until_replaced(redis, &files, &authority, "not valid for name");
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
    assert_eq!(stranger.admin.post("/api/publish", r#"{"channel":"news","data":1}"#).status, 503);
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
    let (own, other) = (CertificateFiles::of(&authority, "encke"), CertificateFiles::of(&authority, "encke"));
    let ca = format!("engine.ca={}", authority.path().display());
    let certificate = format!("engine.certificate={}", own.certificate.display());
    for (settings, problem) in [
        (vec!["engine.ca=/no/such/file".to_owned()], "engine.ca"),
        (vec![format!("engine.ca={}", own.key.display())], "contains no PEM certificate"),
        (
            vec![ca, certificate, format!("engine.key={}", other.key.display())],
            "does not belong to the certificate",
        ),
    ] {
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        for setting in ["engine.kind=redis", "engine.url=rediss://localhost"] {
            arguments.extend(["--set", setting]);
        }
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let output = run_to_end(&arguments, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(problem), "{stderr}");
    }
    let arguments = ["--set", "engine.kind=redis", "--set", "engine.url=rediss://localhost"];
    let output = run_to_end(&arguments, &[("SSL_CERT_FILE", "/no/such/file"), ("SSL_CERT_DIR", "/no/such")]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("engine.ca"), "{stderr}");
}
