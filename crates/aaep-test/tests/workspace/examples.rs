//! Every example program is run by a test.

use crate::source::{files_below, read, rust_files};

/// Example programs that are measurements, which nothing but a person can judge.
const NOT_RUN: &[(&str, &str)] =
    &[("crates/aaep-proto/examples/segment_speed.rs", "a measurement for docs/development/measurements.md")];

#[test]
fn every_example_program_is_run_by_a_test() {
    let crates = rust_files().into_iter().filter(|name| name.split('/').nth(2) == Some("examples"));
    let is_program = |name: &String| [".py", ".mjs", ".html"].iter().any(|end| name.ends_with(end));
    let others = files_below("examples").into_iter().filter(is_program);
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
