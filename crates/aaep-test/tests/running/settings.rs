//! Settings of servers: errors of one line, variables, `--print-config`.

use crate::home::{Home, text};

#[test]
fn errors_in_settings_are_one_line_that_says_where_and_what_to_do() {
    let home = Home::new();
    let file = home.file("aaep.toml", "agent_id = \"a\"\n[limits]\nconections = 5\n");
    let broken = home.file("broken.toml", "listen = \n");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--config", text(&file)], &["aaep.toml, line 3: limits.conections", "did you mean limits.connections?"]),
        (&["--config", text(&broken)], &["broken.toml, line 1: "]),
        (&["--log", "debg"], &["--log: log.filter cannot be \"debg\": did you mean debug?"]),
        (&["--log", "aaep[=debug"], &["log.filter cannot be"]),
        (&["--listen", "8377"], &["--listen: listen cannot be \"8377\": give an address and a port"]),
        (&["--client-ca", "ca.pem"], &["set tls.cert or --tls-cert"]),
    ];
    for (arguments, parts) in cases {
        let ended = home.run(&[&["serve"], arguments].concat());
        assert_eq!((ended.code, ended.err.lines().count()), (Some(2), 1), "{arguments:?}: {}", ended.err);
        for part in parts {
            assert!(ended.err.contains(part), "{arguments:?}: {}", ended.err);
        }
        assert!(!ended.err.contains("\\u{") && !ended.err.contains('|'), "{}", ended.err);
    }
}

#[test]
fn misspelt_variables_are_errors_and_lists_and_numbers_are_read_by_their_setting() {
    let home = Home::new();
    let output = home.command(&["serve", "--print-config"]).env("AAEP_LISTN", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "aaep: AAEP_LISTN is not a setting; did you mean AAEP_LISTEN?\n"
    );
    let mut command = home.command(&["serve", "--print-config"]);
    let output = command.env("AAEP_HOSTS", "a,b").env("AAEP_AGENT_ID", "42").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for line in
        ["hosts = [\"a\", \"b\"]", "agent_id = \"42\"", "# agent_name is not set", "# [tls]", "# dir is not set"]
    {
        assert!(printed.lines().any(|printed| printed == line), "{line} is not in\n{printed}");
    }
    let file = home.file("printed.toml", &printed);
    let again = home.run(&["serve", "--print-config", "--config", text(&file)]);
    assert_eq!((again.code, again.out), (Some(0), printed), "{}", again.err);
}
