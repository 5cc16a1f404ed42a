//! Runs the commands of the documents, and compares their transcripts with what the server sends.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use encke_tests::binaries;
use encke_tests::process::Process;

#[test]
fn commands_and_transcripts_are_true() {
    let encke = binaries::encke();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("documents/check.py");
    let mut check = Command::new("python3");
    check.arg(script).arg(encke.parent().expect("a binary is in a folder"));
    let output = Process::start(&mut check).output(Duration::from_secs(600));
    assert!(output.status.success(), "{}", output.stderr);
}
