//! Programs for Windows, built once with the compiler of Debian's package rustc-web, and Wine to run them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use aaep_test::{prepare_once, root};
use serde_json::Value;

/// rustup's targets may be out of reach; this compiler comes with the source of its standard library.
const CARGO: &str = "/usr/bin/cargo";
const RUSTC: &str = "/usr/bin/rustc";
const WINE: &str = "/usr/lib/wine/wine64";
const LINKER: &str = "x86_64-w64-mingw32-gcc";
const TARGET: &str = "x86_64-pc-windows-gnu";

const NEEDS: &str = "this test needs the Debian packages rustc-web, cargo-web, rust-web-src, gcc-mingw-w64-x86-64, \
    g++-mingw-w64-x86-64 and wine64; scripts/setup installs them";

/// The programs.
pub(crate) struct Programs {
    /// The command.
    pub(crate) aaep: PathBuf,
    /// The transport suite.
    pub(crate) transports: PathBuf,
    /// The unit tests of the named pipe.
    pub(crate) local: PathBuf,
    prefix: PathBuf,
}

impl Programs {
    /// Builds the programs and prepares Wine, once for all tests.
    pub(crate) fn get() -> &'static Programs {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let below = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("windows");
            // One call for both, so that the crates they share are built once.
            let shared = ["build", "-p", "aaep-cli", "-p", "aaep-test", "--bin", "aaep", "--test", "transports"];
            let built = build(&below, &shared);
            let units = build(&below, &["test", "--no-run", "-p", "aaep-local", "--lib"]);
            let programs = Programs {
                aaep: executable(&built, "aaep"),
                transports: executable(&built, "transports"),
                local: executable(&units, "aaep_local"),
                prefix: below.join("wine"),
            };
            programs.prepare_wine(&below);
            programs
        })
    }

    /// Returns the command that runs a program for Windows.
    pub(crate) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(WINE);
        command.arg(program).env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all");
        command
    }

    /// Compiles a C program of this directory for Windows and returns its path.
    pub(crate) fn compile(&self, source: &str, into: &Path) -> PathBuf {
        let program = into.join(source).with_extension("exe");
        output(Command::new(LINKER).arg(sources().join(source)).arg("-o").arg(&program));
        program
    }

    /// Creates the directory that Wine needs, and the library that it lacks beside each program.
    fn prepare_wine(&self, below: &Path) {
        let version = output(Command::new(WINE).arg("--version"));
        let shim = below.join("bcryptprimitives.dll");
        prepare_once(&below.join("prepared"), &format!("1 {}", version.trim()), || {
            // An earlier attempt may have stopped halfway.
            let _ = std::fs::remove_dir_all(&self.prefix);
            let shared = ["-shared", "-ladvapi32", "-o"];
            output(Command::new(LINKER).arg(sources().join("shim.c")).args(shared).arg(&shim));
            output(self.run(Path::new("wineboot.exe")).arg("--init").stdin(Stdio::null()));
        });
        for program in [&self.aaep, &self.transports, &self.local] {
            std::fs::copy(&shim, program.with_file_name("bcryptprimitives.dll")).unwrap();
        }
    }
}

fn sources() -> PathBuf {
    root().join("crates/aaep-test/tests/windows")
}

/// Calls cargo for Windows and returns the names and paths of the executables. Cargo itself locks the directory.
fn build(below: &Path, arguments: &[&str]) -> Vec<(String, PathBuf)> {
    let mut cargo = Command::new(CARGO);
    let (verb, rest) = arguments.split_first().unwrap();
    cargo.arg(verb).args(["-Zbuild-std=std,panic_unwind", "--target", TARGET, "--locked", "--message-format=json"]);
    cargo.args(rest).current_dir(root()).env("RUSTC", RUSTC).env("CARGO_TARGET_DIR", below);
    // Building the standard library is not stable.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    // The fastest build: these programs run for seconds.
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
    // These are of the toolchain that runs this test.
    for variable in
        ["LD_LIBRARY_PATH", "RUSTUP_TOOLCHAIN", "CARGO", "RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]
    {
        cargo.env_remove(variable);
    }
    let text = output(cargo.arg("--quiet"));
    let artifacts = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let named = |artifact: Value| {
        let path = artifact["executable"].as_str()?.into();
        Some((artifact["target"]["name"].as_str()?.to_owned(), path))
    };
    artifacts.filter_map(named).collect()
}

fn executable(built: &[(String, PathBuf)], name: &str) -> PathBuf {
    let found = built.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("cargo built no {name}: {built:?}")).1.clone()
}

/// Runs a program and returns its standard output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}; {NEEDS}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed; {NEEDS}\n{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
