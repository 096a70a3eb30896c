//! `aaep pending`, `accept`, `reject` and `answer`: answers from scripts and other windows, through a running
//! `aaep listen`.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_listen::{ControlRequest, ControlResponse};
use serde_json::{Value, json};

use crate::CommandStatus;
use crate::listen::socket;
use crate::output::{Escaped, EscapedJson, fail, print_error};
use crate::runtime::runtime;

/// Flags of all these commands.
#[derive(clap::Args)]
pub(crate) struct AnswerFlags {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Process id of the listener, if several are running
    #[arg(long, value_name = "PID")]
    listener: Option<u32>,
}

/// List open questions.
///
/// Needs a running `aaep listen`. Exit code 0 if there is an open question, 1 if there is none.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep pending
  aaep pending --json")]
pub(crate) struct PendingArgs {
    #[command(flatten)]
    common: AnswerFlags,
}

/// The arguments of `accept` and `reject`.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// Number of the question, required for an irreversible action; see: aaep pending
    number: Option<u32>,
    #[command(flatten)]
    common: AnswerFlags,
}

/// Answer a clarification with text or with the number of a choice.
///
/// Needs a running `aaep listen`. A number before the text names the question; a number alone is the answer. Exit code 1 if
/// the answer was not sent: the question has ended, or several are open and no number was given.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep answer Lagos
  aaep answer 3 \"New York\"")]
pub(crate) struct AnswerArgs {
    /// Number of the question, if several are open, then the answer
    #[arg(required = true, num_args = 1.., value_name = "[NUMBER] TEXT")]
    words: Vec<String>,
    #[command(flatten)]
    common: AnswerFlags,
}

pub(crate) fn pending(args: &PendingArgs) -> io::Result<CommandStatus> {
    ask(&args.common, &ControlRequest::Pending)
}

pub(crate) fn accept(args: &DecideArgs) -> io::Result<CommandStatus> {
    ask(&args.common, &ControlRequest::Accept { number: args.number })
}

pub(crate) fn reject(args: &DecideArgs) -> io::Result<CommandStatus> {
    ask(&args.common, &ControlRequest::Reject { number: args.number })
}

pub(crate) fn answer(args: &AnswerArgs) -> io::Result<CommandStatus> {
    let (number, text) = match args.words.as_slice() {
        // A single word is the answer, even if it is a number.
        [first, rest @ ..] if !rest.is_empty() && first.parse::<u32>().is_ok() => (first.parse().ok(), rest.join(" ")),
        words => (None, words.join(" ")),
    };
    ask(&args.common, &ControlRequest::Answer { number, text })
}

fn ask(common: &AnswerFlags, request: &ControlRequest) -> io::Result<CommandStatus> {
    let asked = runtime()?.block_on(async {
        let found = listeners(common.listener).await;
        match found.as_slice() {
            [] => Err("no running aaep listen found for this user; start one first".to_owned()),
            [(_, path)] => {
                socket::call(path, request).await.map_err(|error| format!("the listener does not respond: {error}"))
            }
            several => {
                let pids: Vec<String> = several.iter().map(|(pid, _)| pid.to_string()).collect();
                Err(format!("several listeners are running; choose one with --listener: {}", pids.join(", ")))
            }
        }
    });
    match asked {
        Ok(response) => report(common, request, &response),
        Err(error) => Ok(fail(error)),
    }
}

/// Returns the process ids and sockets of the listeners that respond. Stale sockets are left out.
async fn listeners(wanted: Option<u32>) -> Vec<(u32, PathBuf)> {
    let mut alive = Vec::new();
    for (pid, path) in socket::find(&aaep_local::directory()) {
        if wanted.is_none_or(|wanted| wanted == pid) && socket::call(&path, &ControlRequest::Pending).await.is_ok() {
            alive.push((pid, path));
        }
    }
    alive
}

fn report(common: &AnswerFlags, request: &ControlRequest, response: &ControlResponse) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    let listing = *request == ControlRequest::Pending;
    if common.json {
        let text = json!({"ok": response.ok, "text": response.text, "questions": response.questions});
        writeln!(out, "{}", EscapedJson(text))?;
    } else if response.ok {
        writeln!(out, "{}", Escaped(&response.text))?;
    } else {
        print_error(&response.text);
    }
    if !common.json && (listing || !response.ok) {
        for question in &response.questions {
            for line in lines(question) {
                writeln!(out, "{}", Escaped(&line))?;
            }
        }
    }
    let yes = response.ok && !(listing && response.questions.is_empty());
    Ok(if yes { CommandStatus::Yes } else { CommandStatus::No })
}

/// Formats a question as it was announced, and its remaining time.
fn lines(question: &Value) -> Vec<String> {
    let number = &question["number"];
    let said = question["said"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut lines: Vec<String> = said.map(|text| format!("Question {number}: {text}")).collect();
    let care = if question["needs_care"] == true { " It needs care: name its number." } else { "" };
    lines.push(format!("Question {number} waits for {} seconds.{care}", question["seconds_left"]));
    lines
}
