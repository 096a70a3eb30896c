//! Help, completions and manual pages.

use std::process::Command;

use crate::home::{Home, text};

#[test]
fn help_has_defaults_variables_and_examples() {
    let home = Home::new();
    let long = home.run(&["serve", "--help"]).out;
    for part in ["[default: 127.0.0.1:8377]", "[env: AAEP_LISTEN]", "Examples:", "aaep serve --config aaep.toml"] {
        assert!(long.contains(part), "{part} is not in\n{long}");
    }
    let short = home.run(&["audit", "-h"]).out;
    let long = home.run(&["audit", "--help"]).out;
    assert!(long.len() > short.len() + 200, "{long}");
}

#[test]
fn completions_are_accepted_by_the_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = home.run(&["completions", shell]);
        assert!(ended.code == Some(0) && ended.out.contains("listen"), "{shell}: {}", ended.err);
    }
    let script = home.file("aaep.bash", &home.run(&["completions", "bash"]).out);
    let complete = format!(
        "source {}; COMP_WORDS=(aaep lis); COMP_CWORD=1; _aaep aaep lis aaep; echo \"${{COMPREPLY[@]}}\"",
        text(&script)
    );
    let output = Command::new("bash").args(["-c", &complete]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        "listen",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(home.run(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn manual_has_a_page_for_each_command() {
    let home = Home::new();
    let directory = home.path().join("man/man1");
    assert_eq!(home.run(&["man", text(&directory)]).code, Some(0));
    let names: Vec<String> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for page in ["aaep.1", "aaep-listen.1", "aaep-serve.1", "aaep-keys-new.1", "aaep-doctor.1"] {
        assert!(names.iter().any(|name| name == page), "{page} is not in {names:?}");
    }
    let page = std::fs::read_to_string(directory.join("aaep-listen.1")).unwrap();
    assert!(page.contains(".SH NAME") && page.contains("speak") && page.contains("Examples:"), "{page}");
    home.file("file", "");
    assert_eq!(home.run(&["man", text(&home.path().join("file"))]).code, Some(2));
}
