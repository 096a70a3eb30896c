//! Packages of npm for tests: a type checker and an accessibility checker. The first caller installs them, the others wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages with their exact versions.
const PACKAGES: [&str; 2] = ["typescript@7.0.2", "axe-core@4.14.0"];

/// Returns a directory with the packages.
pub(crate) fn modules() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-npm");
    let installed = below.join("installed");
    aaep_test::prepare_once(&below, &PACKAGES.join(" "), || {
        // An earlier attempt may have stopped halfway.
        let _ = fs::remove_dir_all(&installed);
        fs::create_dir_all(&installed).unwrap();
        fs::write(installed.join("package.json"), "{\"private\": true}").unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact"])
            .args(PACKAGES)
            .current_dir(&installed);
        let output = npm.output().expect("this test needs the Debian packages nodejs and npm");
        assert!(output.status.success(), "npm: {}", String::from_utf8_lossy(&output.stderr));
    });
    installed.join("node_modules")
}
