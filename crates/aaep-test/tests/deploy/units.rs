//! The systemd units, checked by systemd.

use std::fs;
use std::process::Command;

use aaep_test::{aaep, root};

use crate::run;

/// Checks the units of one manager. systemd prints a line for each mistake, also where it exits with 0.
fn verify(folder: &str, flags: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for entry in fs::read_dir(root().join("deploy/systemd").join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // The installed command need not be there.
        let text = fs::read_to_string(&path).unwrap().replace("/usr/local/bin/aaep", aaep().to_str().unwrap());
        let copy = place.path().join(&name);
        fs::write(&copy, text).unwrap();
        if name.ends_with(".service") || name.ends_with(".socket") {
            units.push(copy);
        }
    }
    assert_eq!(units.len(), 2, "{units:?}");
    let mut command = Command::new("systemd-analyze");
    command.args(flags).args(["verify", "--man=no"]).args(&units).env("XDG_RUNTIME_DIR", place.path());
    let (code, output, errors) = run(&mut command);
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "", ""), "{folder}");
}

#[test]
fn system_units_are_valid() {
    verify("system", &[]);
}

#[test]
fn user_units_are_valid() {
    verify("user", &["--user"]);
}

/// Returns the arguments of the command that a unit starts.
fn arguments(unit: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("deploy/systemd").join(unit)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    line.split(' ').skip(1).map(str::to_owned).collect()
}

#[test]
fn commands_of_the_units_are_accepted() {
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("config.toml");
    fs::write(&config, "").unwrap();
    for unit in ["system/aaep.service", "user/aaep.service"] {
        let arguments = arguments(unit).into_iter().map(|argument| {
            argument.replace("/etc/aaep/config.toml", config.to_str().unwrap()).replace("%S", "/var/lib")
        });
        let (code, output, errors) = run(Command::new(aaep()).args(arguments).arg("--print-config"));
        assert_eq!(code, Some(0), "{unit}: {errors}");
        assert!(output.contains("dir = \"/var/lib/aaep\""), "{unit}: {output}");
    }
}
