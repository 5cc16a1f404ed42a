use std::time::Duration;

use super::*;

const FIELDS: &str = r#"url = "https://a.example/hooks", events = ["session.closed"]"#;
const SECRET: &str = r#"secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#;

fn resolve(webhook: &str) -> Result<Config, ConfigErrors> {
    let flags = vec![format!("webhook=[{webhook}]")];
    Settings { flags, ..Settings::default() }.resolve()
}

/// Returns a webhook with a plain HTTP URL, so that the test needs no trusted authorities on the machine.
fn plain() -> String {
    format!("{{ {}, {SECRET} }}", FIELDS.replace("https", "http"))
}

#[test]
fn a_webhook_needs_no_more_than_it_must_have() {
    let config = resolve(&plain()).expect("valid");
    let [webhook] = &*config.webhooks else { panic!("one webhook") };
    assert_eq!((&*webhook.name, webhook.max_queued), ("0", 100_000));
    assert_eq!((webhook.timeout, webhook.retry_for), (Duration::from_secs(10), Duration::from_mins(10)));
    assert!(Settings::default().resolve().expect("valid").webhooks.is_empty());
}

#[test]
fn a_file_has_blocks_and_the_environment_a_list() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let block = format!("[[webhook]]\n{}\n{SECRET}\n", FIELDS.replace("https", "http").replace(", ", "\n"));
    std::fs::write(file.path(), format!("{block}\n{block}name = 'b'\n")).expect("written");
    let config = Settings::from_file(file.path()).resolve().expect("valid");
    let names: Vec<_> = config.webhooks.iter().map(|webhook| &*webhook.name).collect();
    assert_eq!(names, ["0", "b"]);

    let environment = vec![("ENCKE_WEBHOOK".into(), format!("[{}]", plain()))];
    let config = Settings { environment, ..Settings::default() }.resolve().expect("valid");
    assert_eq!(config.webhooks.len(), 1);

    std::fs::write(file.path(), "[webhook]\nurl = 'http://a.example'").expect("written");
    let error = Settings::from_file(file.path()).resolve().expect_err("a table").to_string();
    assert!(error.ends_with("is a list of tables: [[webhook]]"), "{error}");
}

#[test]
fn errors_name_the_key_and_show_no_secret() {
    let with = |more: &str| format!("{{ {}, {SECRET}, {more} }}", FIELDS.replace("https", "http"));
    let table = [
        (format!("{{ {FIELDS} }}"), "`webhook[0]`", "missing field `secret`"),
        (format!("{{ {FIELDS}, secret = 'hunter2' }}"), "`webhook[0].secret`", "must be `whsec_` and base64"),
        (format!("{{ {FIELDS}, secret = 7 }}"), "`webhook[0].secret`", "expected a string"),
        (format!("{}, {{ {SECRET} }}", plain()), "`webhook[1]`", "missing field `url`"),
        (with("urls = 1"), "`webhook[0].urls`", "unknown field `urls`"),
        (with("name = ''"), "`webhook[0].name`", "must not be empty"),
        (format!("{}, {}", with("name = '1'"), plain()), "`webhook[1].name`", "is the name of another"),
        (plain().replace("session.closed", "session.gone"), "`webhook[0].events[0]`", "unknown variant"),
        (plain().replace("\"session.closed\"", ""), "`webhook[0].events`", "must not be empty"),
        (plain().replace("http://", "ftp://"), "`webhook[0].url`", "must begin with http:// or https://"),
        (with("timeout = '99ms'"), "`webhook[0].timeout`", "must be at least 100ms"),
        (with("max_queued = 0"), "`webhook[0].max_queued`", "must be at least 1"),
        (
            format!("{{ {FIELDS}, {SECRET}, ca = '/does/not/exist' }}"),
            "`webhook[0].ca`",
            "/does/not/exist: cannot be read",
        ),
    ];
    for (webhook, key, message) in table {
        let error = resolve(&webhook).map(|_| ()).expect_err(&webhook).to_string();
        assert!(error.starts_with(key) && error.contains(message), "{error}");
        assert!(error.contains("(set by --set webhook)"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("whsec_M"), "{error}");
    }
}

#[test]
fn all_wrong_fields_of_all_webhooks_are_reported() {
    let webhooks = "{ url = 'http://a/', events = ['user.onlin'], secret = 1, timout = '1s', retry_for = 10 }, { urls = 'b' }";
    let errors = resolve(webhooks).map(|_| ()).expect_err("nothing is right").to_string();
    let keys: Vec<_> = errors.lines().filter_map(|line| line.split('`').nth(1)).collect();
    let first = ["events[0]", "retry_for", "secret", "timout"].map(|field| format!("webhook[0].{field}"));
    let mut sorted: Vec<_> = keys.iter().map(ToString::to_string).collect();
    sorted.sort();
    assert_eq!(
        sorted,
        [&first[..], &["webhook[1]".to_owned(), "webhook[1].urls".to_owned()]].concat(),
        "{errors}"
    );
}
