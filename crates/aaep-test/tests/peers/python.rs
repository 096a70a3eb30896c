//! Published Python packages, in an environment of their own below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aaep_test::root;

/// What is installed. A change here installs anew.
const PACKAGES: [&str; 6] = [
    "aaep-conformance==1.0.0",
    "aaep-cli-debug==1.0.0",
    "aaep-tools==1.0.0",
    "httpx[http2]<1",
    "jsonschema<5",
    "websockets>=15",
];

/// An installed command that will talk to this machine only.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(environment().join("bin").join(name));
    // The clients would send even this to a proxy.
    command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
    command.env("PYTHONUNBUFFERED", "1").env("PYTHONWARNINGS", "ignore");
    command
}

/// Where the packages are.
fn environment() -> PathBuf {
    let python = aaep_test::python(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers"), &PACKAGES);
    let environment = python.ancestors().nth(2).expect("it stands in bin").to_path_buf();
    lend_schemas(&environment);
    environment
}

/// The suite was published without the schemas that it checks against, but looks for them here. It gets ours.
fn lend_schemas(environment: &Path) {
    let mut libraries = fs::read_dir(environment.join("lib")).unwrap().flatten().map(|entry| entry.path());
    let checks = libraries.find_map(|library| {
        let checks = library.join("site-packages/aaep_conformance/checks");
        checks.is_dir().then_some(checks)
    });
    let target = checks.expect("the suite is installed").join("schemas");
    for folder in ["", "core"] {
        fs::create_dir_all(target.join(folder)).unwrap();
        for entry in fs::read_dir(root().join("schemas").join(folder)).unwrap().flatten() {
            if entry.path().is_file() {
                lend(&entry.path(), &target.join(folder).join(entry.file_name()));
            }
        }
    }
}

/// Copies a file unless it is there, in one step: another test may be reading it.
fn lend(from: &Path, to: &Path) {
    let content = fs::read(from).unwrap();
    if fs::read(to).ok().as_ref() != Some(&content) {
        let new = to.with_extension("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, to).unwrap();
    }
}
