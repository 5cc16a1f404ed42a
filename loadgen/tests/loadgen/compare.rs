//! Tests of `compare`, which shows results side by side.

use std::fs;
use std::time::Duration;

use crate::fake_server::{Behaviour, FakeServer};
use crate::run::loadgen;

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_side_by_side() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(Duration::from_secs(10))).await;
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let place = directory.path().display();
    for connections in [10, 20] {
        let run = format!(
            "hold {} --connections {connections} --rate 1000 --duration 100ms --report {place}/{connections}",
            server.url()
        );
        loadgen(&run).await.assert_code(0);
    }
    let ended =
        loadgen(&format!("compare {place}/10/result.json {place}/20/result.json --report {place}/both"))
            .await;
    ended.assert_code(0);
    let row = ended.stdout.lines().find(|line| line.contains(" connected ")).expect("the table has the row");
    let cells: Vec<_> = row.split_whitespace().filter(|cell| *cell != "│").collect();
    assert_eq!(cells, ["connected", "10", "20", "2.00x"]);
    assert!(ended.stdout.contains("connect_ms.p99.99"), "{}", ended.stdout);
    let page = fs::read_to_string(directory.path().join("both/compare.html")).expect("the file was written");
    assert!(page.matches("<svg").count() >= 4 && page.contains("2.00x"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_files_are_rejected() {
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let file = directory.path().join("other.json");
    fs::write(&file, r#"{"format":2}"#).expect("a temporary file can be written");
    let ended = loadgen(&format!("compare {0} {0}", file.display())).await;
    ended.assert_code(1);
    assert!(ended.stderr.contains("is not a loadgen result"), "{}", ended.stderr);
    loadgen(&format!("compare {}", file.display())).await.assert_code(2);
}
