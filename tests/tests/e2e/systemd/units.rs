use std::fs;
use std::path::Path;
use std::process::Command;

use encke_tests::binaries;

/// Copies the units, replacing the path of the binary with the path of the binary under test.
fn copy_units(to: &Path) -> Vec<String> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let binary = binaries::encke().display().to_string();
    let copy = |name: &str| {
        let unit = fs::read_to_string(from.join(name)).expect("the unit exists");
        let path = to.join(name);
        fs::write(&path, unit.replace("/usr/bin/encke", &binary)).expect("the file can be written");
        path.display().to_string()
    };
    ["encke.service", "encke-public.socket", "encke-admin.socket"].map(copy).into()
}

#[test]
fn units_pass_systemd_analyze() {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let units = copy_units(folder.path());
    let verify = || {
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output();
        let output = output.expect("systemd-analyze is installed");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // The output may contain messages about other units of the machine.
        let relevant = text.lines().filter(|line| line.contains("encke")).map(ToOwned::to_owned);
        (output.status.success(), relevant.collect::<Vec<_>>())
    };
    assert_eq!(verify(), (true, Vec::new()));
    let mut service = fs::read_to_string(&units[0]).expect("the copy can be read");
    service.push_str("[Service]\nNoSuchKey=1\n");
    fs::write(&units[0], service).expect("the file can be written");
    assert!(verify().1.iter().any(|line| line.contains("NoSuchKey")), "the test detects an invalid line");
}
