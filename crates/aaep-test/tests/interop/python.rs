//! Published Python packages, in a virtual environment below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aaep_test::root;

/// The installed packages. A change here installs them again.
const PACKAGES: [&str; 6] = [
    "aaep-conformance==1.0.0",
    "aaep-cli-debug==1.0.0",
    "aaep-tools==1.0.0",
    "httpx[http2]<1",
    "jsonschema<5",
    "websockets>=15",
];

/// Returns an installed command that uses no proxy.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(environment().join("bin").join(name));
    // The clients would use a proxy even for loopback addresses.
    command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
    command.env("PYTHONUNBUFFERED", "1").env("PYTHONWARNINGS", "ignore");
    command
}

/// Returns the virtual environment, which the first test prepares.
fn environment() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop-suite");
    let schemas = schemas();
    let version: String = schemas.iter().map(|(name, text)| format!("{}\n{text}\n", name.display())).collect();
    let python = aaep_test::python_with(&below, &PACKAGES, &version, |environment| install(&schemas, environment));
    python.ancestors().nth(2).expect("it is in bin").to_path_buf()
}

/// Returns the schemas of this repository: path below `schemas`, and text.
fn schemas() -> Vec<(PathBuf, String)> {
    let root = root().join("schemas");
    let mut schemas = Vec::new();
    for folder in ["", "core"] {
        for path in fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            // Not the API documents, which are no schemas.
            if path.to_string_lossy().ends_with(".schema.json") {
                let name = path.strip_prefix(&root).unwrap().to_path_buf();
                schemas.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    schemas.sort();
    schemas
}

/// Installs the schemas for the suite, which was published without them but looks for them beside its checks.
fn install(schemas: &[(PathBuf, String)], environment: &Path) {
    let mut libraries = fs::read_dir(environment.join("lib")).unwrap().flatten().map(|entry| entry.path());
    let checks = libraries.find_map(|library| {
        let checks = library.join("site-packages/aaep_conformance/checks");
        checks.is_dir().then_some(checks)
    });
    let target = checks.expect("the suite is installed").join("schemas");
    for (name, text) in schemas {
        let path = target.join(name);
        fs::create_dir_all(path.parent().expect("it is below the target")).unwrap();
        fs::write(path, text).unwrap();
    }
}
