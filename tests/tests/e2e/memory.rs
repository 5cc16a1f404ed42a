use encke_tests::Launch;
use encke_tests::waiting::until;

#[test]
fn a_thread_gives_back_what_is_free() {
    let server = Launch::default().start();
    until("it is there", || server.thread_names().iter().any(|name| name == "jemalloc_bg_thd"));
    assert_eq!(server.logs.count("given back late"), 0, "and is set as it should be");
}
