use encke_tests::server::run_to_end;

const SECRET: (&str, &str) = ("ENCKE_AUTH__SECRET", "0123456789abcdef0123456789abcdef");

#[test]
fn a_token_is_printed() {
    let allow = ["--allow", "news=subscribe", "--allow", "chat.*=subscribe,publish"];
    let arguments = [&["token", "--sub", "alice", "--ttl", "1h"][..], &allow].concat();
    let output = run_to_end(&arguments, &[SECRET]);
    assert!(output.status.success(), "{output:?}");
    let token = output.stdout;
    assert_eq!(token.trim_end().split('.').count(), 3, "{token}");
    assert!(token.starts_with("ey") && token.ends_with('\n') && token.lines().count() == 1, "{token}");
    assert!(output.stderr.is_empty());

    let keys = "auth.keys=[{kid='a',algorithm='HS256',secret='0123456789abcdef0123456789abcdef'}]";
    let output = run_to_end(&["token", "--sub", "alice", "--kid", "a", "--set", keys], &[]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn invalid_token_options_are_refused() {
    let scope = "`read` is not one of subscribe, publish, presence, history";
    for (options, environment, message) in [
        (&["--sub", "alice"][..], &[][..], "auth.secret is not set"),
        (&["--sub", "alice", "--kid", "b"], &[SECRET], "`b`"),
        (&["--sub", ""], &[SECRET], "`sub`"),
        (&["--sub", "a", "--allow", "news=read"], &[SECRET], scope),
        (&["--sub", "a", "--allow", "a*b=publish"], &[SECRET], "`channels`"),
        (&[], &[SECRET], "--sub"),
        (&["--sub", "a", "--config", "/nowhere.toml"], &[], "/nowhere.toml"),
    ] {
        let output = run_to_end(&[&["token"], options].concat(), environment);
        output.assert_failed(2, &[message]);
        assert!(!output.stderr.contains(SECRET.1), "{output:?}");
    }
}
