//! Python with published packages, in a virtual environment below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::prepare_once;

/// Returns a Python interpreter that has these packages. The first caller installs them, the others wait for it.
pub fn python(below: &Path, packages: &[&str]) -> PathBuf {
    python_with(below, packages, "", |_| {})
}

/// Returns a Python interpreter that has these packages and whatever `extend` adds to its environment. `version`
/// identifies what `extend` does: another version installs everything again.
pub fn python_with(below: &Path, packages: &[&str], version: &str, extend: impl FnOnce(&Path)) -> PathBuf {
    let environment = below.join("python");
    let python = environment.join("bin/python");
    prepare_once(below, &format!("{}\n{version}", packages.join("\n")), || {
        // An earlier attempt may have stopped halfway.
        let _ = fs::remove_dir_all(&environment);
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(&python).args(install).args(packages));
        extend(&environment);
    });
    python
}

fn run(command: &mut Command) {
    let needs = "this test needs the packages python3, python3-venv and python3-pip, and the Python package index";
    let output = command.output();
    assert!(output.is_ok(), "{command:?} cannot be started: {needs}");
    let output = output.expect("it was started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {needs}\n{errors}");
}
