//! `aaep hook`: what an agent runs at its hooks.
//!
//! Whatever goes wrong, it prints nothing and exits with code 0: then the agent asks by itself. For some agents any other
//! end means a refusal.

use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use aaep_bridge::hooks::{HookAction, HookAgent, HookDecision, HookQuestion, decision_of, hook_output, translate};
use serde_json::Value;

use crate::user_server::UserServer;

/// Most bytes of a payload. An agent that sends more asks by itself.
const MAX_PAYLOAD_BYTES: u64 = 16 * 1024 * 1024;

/// Report an event of an agent, or ask for a permission.
///
/// Agents run this at their hooks, after aaep attach has installed it. Reads the payload as JSON from stdin, and prints the
/// decision of the user for the agent. Prints nothing if nobody listens or anything fails: then the agent asks by itself.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  aaep hook claude permission < payload.json")]
pub(crate) struct HookArgs {
    /// Agent: claude, qwen, copilot, codex, opencode or gemini
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Kind of the hook: permission, or the agent's own name of the event
    #[arg(value_name = "EVENT")]
    event: String,
}

pub(crate) fn run(args: &HookArgs) {
    // The agent would show the message of a panic as a failed hook.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(|| handle(args));
}

fn handle(args: &HookArgs) -> Option<()> {
    // In any case all of it: an agent that cannot write the payload may take that for a failed hook.
    let mut payload = Vec::new();
    std::io::stdin().take(MAX_PAYLOAD_BYTES).read_to_end(&mut payload).ok()?;
    let agent: HookAgent = args.agent.parse().ok()?;
    let server = UserServer::find()?;
    let mut payload: Value = serde_json::from_slice(&payload).ok()?;
    add_last_message(&mut payload);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nonce = format!("{}-{}", std::process::id(), since.as_nanos());
    let action = translate(agent, &args.event, &payload, &nonce);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    match action {
        HookAction::Ignore => {}
        HookAction::Announce(events) => {
            runtime.block_on(server.post(agent.as_str(), &events));
        }
        HookAction::Ask(question) => runtime.block_on(ask(agent, &server, &question)),
    }
    Some(())
}

/// Adds the last message of an agent that has it only in its transcript, as Copilot does.
fn add_last_message(payload: &mut Value) -> Option<()> {
    let path = payload.get("transcriptPath")?.as_str()?;
    let transcript = std::fs::read_to_string(path).ok()?;
    let message = transcript.lines().rev().find_map(|line| {
        let entry: Value = serde_json::from_str(line).ok()?;
        if entry["type"] != "assistant.message" {
            return None;
        }
        entry["data"]["content"].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    })?;
    payload.as_object_mut()?.insert("text".to_owned(), message.into());
    Some(())
}

async fn ask(agent: HookAgent, server: &UserServer, question: &HookQuestion) {
    if server.listeners().await.unwrap_or(0) == 0 {
        return;
    }
    let outcome = tokio::select! {
        outcome = server.ask(agent.as_str(), &question.event) => outcome,
        () = ended() => {
            // The user has answered in the terminal. That is no decision of this hook.
            server.post(agent.as_str(), std::slice::from_ref(&question.withdrawal)).await;
            return;
        }
    };
    let decision = outcome.as_ref().map_or(HookDecision::Defer, decision_of);
    if let Some(output) = hook_output(agent, decision) {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{output}").and_then(|()| out.flush());
    }
    server.post(agent.as_str(), std::slice::from_ref(&question.end)).await;
}

/// Waits until the agent ends this process.
#[cfg(unix)]
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let mut signals: Vec<_> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
    std::future::poll_fn(|cx| {
        let received = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
        if received { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[cfg(not(unix))]
async fn ended() {
    let _ = tokio::signal::ctrl_c().await;
}
