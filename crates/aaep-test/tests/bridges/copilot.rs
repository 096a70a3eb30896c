//! GitHub Copilot CLI as it is published, attached by hooks, with a model on loopback.

use std::process::Stdio;

use aaep_test::aaep;
use serde_json::json;

use super::harness::Home;
use super::hooks::Up;
use super::listener::{Policy, kinds};
use super::mock_model::{MockCall, MockModel};
use super::packages::npm_agent;

/// Runs Copilot once, with a model that wants to delete a file. Returns whether the file is still there, and what the
/// listener heard.
fn delete_with(policy: Option<Policy>) -> (bool, Vec<String>, String) {
    let home = Home::new();
    let file = home.write("precious.txt", "x");
    let run = |arguments: &[&str]| {
        let output = home.command(aaep()).args(arguments).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(&["attach", "copilot", "--yes"]);
    let up = Up::start(&home);
    let listener = policy.map(|policy| up.listen(policy));
    let command = format!("rm {}", file.display());
    let model =
        MockModel::start(MockCall { tool: "bash", arguments: json!({"command": command, "description": "Delete it"}) });
    std::fs::write(home.path().join(".copilot/config.json"), json!({"trusted_folders": [home.path()]}).to_string())
        .unwrap();
    let mut copilot = home.command("node");
    copilot
        .arg(npm_agent("@github/copilot@1.0.102", "@github/copilot/npm-loader.js"))
        .args(["-p", "Delete precious.txt"]);
    copilot.current_dir(home.path()).env("COPILOT_OFFLINE", "true").env("COPILOT_MODEL", "gpt-4.1");
    copilot.env("COPILOT_PROVIDER_BASE_URL", format!("http://{}/v1", model.address));
    copilot.env("COPILOT_PROVIDER_API_KEY", "x").env("COPILOT_AUTO_UPDATE", "false");
    let output = copilot.stdin(Stdio::null()).output().unwrap();
    let heard = listener.map(|listener| {
        listener.wait("the end of the turn", |event| {
            event["summary_normal"].as_str()?.contains("GitHub Copilot has finished").then_some(())
        });
        kinds(&listener.events())
    });
    let heard = heard.unwrap_or_default();
    let results = model.results.lock().unwrap().join("\n");
    let exists = file.exists();
    (
        exists,
        heard,
        format!("{}\n{}\n{results}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    )
}

fn choose(prompt: &aaep_client::Prompt, choice: &str) -> Option<aaep_client::PromptAnswer> {
    prompt.clarification()?;
    Some(aaep_client::PromptAnswer::response(aaep_proto::message::Response::Text(choice.to_owned())))
}

#[test]
fn refusal_keeps_the_file_and_permission_deletes_it() {
    let (exists, heard, said) = delete_with(Some(|prompt| choose(prompt, "deny")));
    assert!(exists, "{heard:?}\n{said}");
    assert!(heard.contains(&"awaiting.clarification".to_owned()), "{heard:?}\n{said}");
    assert!(said.contains("The user refused this."), "the model learns why: {said}");
    let (exists, heard, said) = delete_with(Some(|prompt| choose(prompt, "allow")));
    assert!(!exists, "{heard:?}\n{said}");
    for kind in ["session.started", "awaiting.clarification", "tool.invoked", "tool.completed", "session.completed"] {
        assert!(heard.contains(&kind.to_owned()), "{kind} is missing in {heard:?}\n{said}");
    }
}

#[test]
fn without_a_listener_nothing_is_allowed() {
    let (exists, _, said) = delete_with(None);
    assert!(exists, "{said}");
}
