use encke_tests::Launch;
use encke_tests::waiting::until;

#[test]
fn background_thread_returns_free_memory() {
    let server = Launch::default().start();
    until("the background thread is running", || {
        server.thread_names().iter().any(|name| name == "jemalloc_bg_thd")
    });
    assert_eq!(
        server.logs.count("free memory is returned to the kernel late"),
        0,
        "the allocator is configured"
    );
}
