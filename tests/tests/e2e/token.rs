use std::process::Output;

use encke_tests::server::run_to_end;

const SECRET: (&str, &str) = ("ENCKE_AUTH__SECRET", "0123456789abcdef0123456789abcdef");

#[track_caller]
fn assert_refused(output: &Output, message: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(message), "{stderr}");
    assert!(!stderr.contains(SECRET.1), "{stderr}");
}

#[test]
fn a_token_is_printed() {
    let allow = ["--allow", "news=subscribe", "--allow", "chat.*=subscribe,publish"];
    let arguments = [&["token", "--sub", "alice", "--ttl", "1h"][..], &allow].concat();
    let output = run_to_end(&arguments, &[SECRET]);
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).expect("a token is text");
    assert_eq!(token.trim_end().split('.').count(), 3, "{token}");
    assert!(token.starts_with("ey") && token.ends_with('\n') && token.lines().count() == 1, "{token}");
    assert!(output.stderr.is_empty());

    let keys = "auth.keys=[{kid='a',algorithm='HS256',secret='0123456789abcdef0123456789abcdef'}]";
    let output = run_to_end(&["token", "--sub", "alice", "--kid", "a", "--set", keys], &[]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn invalid_token_options_are_refused() {
    assert_refused(&run_to_end(&["token", "--sub", "alice"], &[]), "auth.secret is not set");
    assert_refused(&run_to_end(&["token", "--sub", "alice", "--kid", "b"], &[SECRET]), "`b`");
    assert_refused(&run_to_end(&["token", "--sub", ""], &[SECRET]), "`sub`");
    let read = ["token", "--sub", "a", "--allow", "news=read"];
    assert_refused(&run_to_end(&read, &[SECRET]), "`read` is not one of subscribe, publish, presence");
    assert_refused(&run_to_end(&["token", "--sub", "a", "--allow", "a*b=publish"], &[SECRET]), "`channels`");
    assert_refused(&run_to_end(&["token"], &[SECRET]), "--sub");
    assert_refused(&run_to_end(&["token", "--sub", "a", "--config", "/nowhere.toml"], &[]), "/nowhere.toml");
}
