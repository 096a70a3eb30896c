//! The program in the README serves, says where, and does what the user decides.

use aaep_test::{Process, example_program, root};

use crate::home::{Home, sees};

#[test]
fn program_of_the_readme_is_the_example() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let shown = readme.split("```rust,no_run\n").nth(1).unwrap().split("```").next().unwrap();
    let example = std::fs::read_to_string(root().join("crates/aaep-server/examples/serving_agent.rs")).unwrap();
    let code: String =
        example.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
    assert_eq!(shown, code);
}

#[test]
fn program_of_the_readme_says_where_it_serves_and_waits_for_consent() {
    let home = Home::new();
    let mut agent = Process::start(&mut home.program(example_program("serving_agent"), &[]));
    let said = agent.line().unwrap();
    let address = said.strip_prefix("Listen to it with: aaep listen ").unwrap_or_else(|| panic!("{said}"));
    let listener = home.start(&["listen", "--on-prompt", "echo accept", address]);
    sees(&listener, "Banker asks: Move 500 dollars to savings.");
    sees(&listener, "500 dollars are on their way.");
    sees(&listener, "End: Done.");
    assert!(agent.wait().success(), "{}", agent.errors());
}
