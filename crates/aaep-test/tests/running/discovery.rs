//! Agents that are found without an address, free ports, and `aaep doctor`.

use serde_json::Value;

use aaep_test::Process;

use crate::home::{Home, sees};

#[test]
fn listen_without_an_address_finds_the_sockets_of_this_user() {
    let home = Home::new();
    let (_first, _) = home.serve(&["serve", "--listen", "localhost:0", "--agent-id", "gardener"]);
    let (_second, _) = home.serve(&["serve", "--listen", "localhost:0", "--agent-id", "banker"]);
    let listener = home.start(&["listen"]);
    let mut seen = Vec::new();
    listener.find("both agents", |line| {
        let found = line.strip_prefix("Note: Listening to ").map(|rest| rest.split(' ').next().unwrap().to_owned());
        seen.extend(found);
        (seen.len() == 2).then_some(())
    });
    seen.sort();
    assert_eq!(seen, ["banker", "gardener"]);
}

#[tokio::test]
async fn agent_with_a_socket_and_a_port_is_found_once() {
    for (more, expected) in [(&[][..], "unix:"), (&["--no-unix"][..], "http://127.0.0.1:")] {
        let home = Home::new();
        let (_server, url) =
            home.serve(&[&["serve", "--listen", "localhost:0", "--agent-id", "gardener"], more].concat());
        let port = url.rsplit(':').next().unwrap().parse().unwrap();
        let socket_of = |agent_id: &str| home.path().join(format!("aaep/{agent_id}.sock"));
        let found = aaep_client::find_local(socket_of, port).await;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

#[test]
fn two_servers_of_one_agent_are_both_found() {
    let home = Home::new();
    let (_first, _) = home.serve(&["serve", "--listen", "localhost:0", "--agent-id", "gardener"]);
    let (second, _) = home.serve(&["serve", "--listen", "localhost:0", "--agent-id", "gardener"]);
    let mut sockets: Vec<String> = std::fs::read_dir(home.path().join("aaep"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".sock"))
        .collect();
    sockets.sort();
    assert_eq!(sockets, [format!("gardener-{}.sock", second.id()), "gardener.sock".to_owned()]);
}

#[test]
fn host_and_port_are_an_address() {
    let home = Home::new();
    let (_server, url) = home.serve(&["serve", "--listen", "localhost:0", "--no-unix"]);
    let port = url.rsplit(':').next().unwrap();
    let listener = home.start(&["listen", &format!("localhost:{port}")]);
    sees(&listener, "Note: Listening to aaep at ");
}

/// Occupies the default port if nothing else does, so that the next server must take another.
fn occupy_default_port() -> Option<std::net::TcpListener> {
    std::net::TcpListener::bind("127.0.0.1:8377").ok()
}

#[test]
fn run_takes_a_free_port_if_the_default_is_in_use_and_keeps_to_one_that_was_given() {
    let _taken = occupy_default_port();
    let home = Home::new();
    let mut process: Process = home.start(&["run", "--", "true"]);
    assert!(process.wait().success(), "{}", process.errors());
    let said = process.errors();
    assert!(
        said.starts_with("Serving at http://127.0.0.1:") && said.contains(", because port 8377 is in use"),
        "{said}"
    );
    let ended = home.run(&["run", "--listen", "localhost:8377", "--", "true"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("cannot listen on 127.0.0.1:8377") && ended.err.contains("--listen"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
}

#[test]
fn doctor_says_what_works_and_how_to_fix_the_rest() {
    let home = Home::new();
    // Services of this machine must not be asked.
    let nowhere = format!("unix_socket:{}/none", home.path().display());
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("SPEECHD_ADDRESS", &nowhere).env("BRLAPI_HOST", ":9").env("PATH", home.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, out, err) = run(&["doctor"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let line =
        |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {out}"));
    assert!(line("Profile: ").contains("works"));
    assert!(line("Local socket: works.").contains("aaep"));
    for optional in ["Speech: does not work.", "Braille: does not work."] {
        assert!(line(optional).contains("To fix it: "), "{out}");
    }
    line("Settings: works.");
    line("Port: ");
    let (_, out, _) = run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["ok"], report["checks"].as_array().unwrap().len()), (&Value::Bool(true), 7));
    std::fs::create_dir_all(home.path().join(".config/aaep")).unwrap();
    home.file(".config/aaep/profile.toml", "pace_wpm = 3");
    let (code, out, _) = run(&["doctor"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("Profile: does not work. ") && out.contains("pace_wpm"), "{out}");
}

#[test]
fn doctor_finds_running_agents() {
    let home = Home::new();
    let (_server, _) = home.serve(&["serve", "--listen", "localhost:0", "--agent-id", "gardener"]);
    let ended = home.run(&["doctor"]);
    assert!(ended.out.contains("gardener.sock; listen to them with: aaep listen"), "{}", ended.out);
}
