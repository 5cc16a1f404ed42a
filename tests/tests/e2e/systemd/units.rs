use std::fs;
use std::path::Path;
use std::process::Command;

use encke_tests::binaries;

/// The units with the server's binary where it is now.
fn copy_units(to: &Path) -> Vec<String> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let binary = binaries::encke().display().to_string();
    let copy = |name: &str| {
        let unit = fs::read_to_string(from.join(name)).expect("the unit is there");
        let path = to.join(name);
        fs::write(&path, unit.replace("/usr/bin/encke", &binary)).expect("there is room for a file");
        path.display().to_string()
    };
    ["encke.service", "encke-public.socket", "encke-admin.socket"].map(copy).into()
}

#[test]
fn systemd_understands_every_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let units = copy_units(folder.path());
    let verify = || {
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output();
        let output = output.expect("systemd-analyze is installed");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // Of other units of the machine there may be something to say as well.
        let ours = text.lines().filter(|line| line.contains("encke")).map(ToOwned::to_owned);
        (output.status.success(), ours.collect::<Vec<_>>())
    };
    assert_eq!(verify(), (true, Vec::new()));
    let mut service = fs::read_to_string(&units[0]).expect("it was written");
    service.push_str("[Service]\nNoSuchKey=1\n");
    fs::write(&units[0], service).expect("there is room for a file");
    assert!(verify().1.iter().any(|line| line.contains("NoSuchKey")), "this test can fail");
}
