use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;

use encke_tests::binaries;
use encke_tests::server::run_to_end;

/// Returns the subcommands that the help of a command lists.
fn subcommands(command: &[&str]) -> Vec<String> {
    let output = run_to_end(&[command, &["--help"]].concat(), &[]);
    let help = String::from_utf8(output.stdout).expect("help is text");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.map_while(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    commands.map(ToOwned::to_owned).collect()
}

/// Returns the names of the man pages of a command and of all commands below it.
fn pages(command: &[&str]) -> Vec<String> {
    let own = format!("{}.1", [&["encke"], command].concat().join("-"));
    let subcommand_pages =
        subcommands(command).into_iter().flat_map(|name| pages(&[command, &[&name]].concat()));
    std::iter::once(own).chain(subcommand_pages).collect()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    names.collect()
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run_to_end(&["generate", "man", &folder.path().display().to_string()], &[]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let (mut written, mut wanted) = (files(folder.path()), pages(&[]));
    written.sort();
    wanted.sort();
    assert!(wanted.contains(&"encke-config-check.1".to_owned()), "{wanted:?}");
    assert_eq!(written, wanted);
    let page = fs::read_to_string(folder.path().join("encke.1")).expect("it was written");
    for part in ["encke\\-token(1)", "SIGTERM", "ENCKE_SECTION__KEY", "EXIT STATUS", "\\-\\-insecure"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn completions_contain_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run_to_end(&["generate", "completions", shell], &[]);
        assert!(output.status.success(), "{output:?}");
        let script = String::from_utf8(output.stdout).expect("a script is text");
        for command in subcommands(&[]) {
            assert!(script.contains(&command), "{shell} does not complete {command}");
        }
    }
    assert_eq!(run_to_end(&["generate", "completions", "nosuch"], &[]).status.code(), Some(2));
}

#[test]
fn write_error_is_reported() {
    let output = run_to_end(&["generate", "man", "/nowhere"], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere"), "{output:?}");
}

/// To a script, a full disk must not look like empty output.
#[test]
fn output_to_a_full_disk_is_a_failure() {
    for command in [&["config", "default"][..], &["reference"], &["generate", "completions", "bash"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
        let mut child = Command::new(binaries::encke());
        let output = child.args(command).stdout(full).output().expect("the binary can be started");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
        assert!(stderr.starts_with("encke: standard output: "), "{command:?}: {stderr}");
    }
}
