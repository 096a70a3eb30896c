//! Every example program is run by a test.

use std::process::Command;

use aaep_test::root;

use crate::source::{files_below, read, rust_files};

/// Example programs that are measurements, which nothing but a person can judge.
const NOT_RUN: &[(&str, &str)] =
    &[("crates/aaep-proto/examples/segment_speed.rs", "a measurement for docs/development/measurements.md")];

#[test]
fn every_example_program_is_run_by_a_test() {
    let crates = rust_files().into_iter().filter(|name| name.split('/').nth(2) == Some("examples"));
    let others = files_below("examples").into_iter().filter(|name| name.ends_with(".py") || name.ends_with(".mjs"));
    let programs: Vec<String> = crates.chain(others).collect();
    assert!(programs.len() >= 3, "found only {programs:?}");
    let tests = rust_files().into_iter().filter(|name| name.contains("/tests/"));
    let tests: Vec<String> = tests.map(|name| read(&name)).collect();
    let mut wrong = Vec::new();
    for program in &programs {
        let file = program.rsplit('/').next().unwrap();
        // A test names a Rust example by its target, or includes it as a module; it names another one by its path.
        let name = file.strip_suffix(".rs").map_or_else(|| program.clone(), |target| format!("\"{target}\""));
        let included = format!("/examples/{file}\"]");
        let is_run = tests.iter().any(|text| text.contains(&name) || text.contains(&included));
        let is_excused = NOT_RUN.iter().any(|(excused, _)| excused == program);
        if is_run == is_excused {
            wrong.push(if is_run {
                format!("{program} is run: remove it from NOT_RUN")
            } else {
                format!("no test runs {program}")
            });
        }
    }
    for (program, _) in NOT_RUN {
        if !programs.iter().any(|name| name == program) {
            wrong.push(format!("{program} does not exist: remove it from NOT_RUN"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs an example of a crate and returns its output.
fn run_example(package: &str, example: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["run", "--quiet", "-p", package, "--example", example];
    let output = Command::new(cargo).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{example} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn smallest_agent_asks_before_it_transfers_money() {
    let output = run_example("aaep", "smallest_agent");
    let at = |event: &str| output.find(event).unwrap_or_else(|| panic!("{event} is missing:\n{output}"));
    assert!(at("awaiting.confirmation") < at("tool.invoked"), "{output}");
    assert!(at("tool.completed") < at("session.completed"), "{output}");
}
