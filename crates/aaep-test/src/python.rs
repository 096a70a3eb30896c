//! Python programs that others would write, with packages in an environment of their own below the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that has these packages, below this directory. They are installed the first time; who comes second waits.
pub fn python(below: &Path, packages: &[&str]) -> PathBuf {
    fs::create_dir_all(below).expect("the directory can be made");
    let lock = File::create(below.join("lock")).expect("the directory can be written");
    lock.lock().expect("files can be locked");
    let (environment, marker) = (below.join("python"), below.join("installed"));
    let python = environment.join("bin/python");
    let wanted = packages.join("\n");
    if fs::read_to_string(&marker).ok().as_deref() != Some(wanted.as_str()) {
        // Half an environment of an earlier try is worth nothing.
        let _ = fs::remove_dir_all(&environment);
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(&python).args(install).args(packages));
        fs::write(&marker, wanted).expect("the directory can be written");
    }
    python
}

fn run(command: &mut Command) {
    let told = "this test needs the packages python3, python3-venv and python3-pip, and the Python package index";
    let output = command.output();
    assert!(output.is_ok(), "{command:?} cannot be started: {told}");
    let output = output.expect("it was started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {told}\n{errors}");
}
