//! `aaep pending`, `accept`, `reject` and `answer`: the same answers from scripts and from other windows, through a
//! running `aaep listen`.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_listen::{ControlRequest, ControlResponse};
use serde_json::{Value, json};

use crate::CommandStatus;
use crate::listen::socket;
use crate::output::{Escaped, EscapedJson, complain};
use crate::serve::runtime;

/// What all of them take.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The process number of the listener, if several run
    #[arg(long, value_name = "PID")]
    listener: Option<u32>,
}

/// Show the questions that wait for you.
///
/// Needs a running `aaep listen`. The exit code is 0 if a question waits, 1 if none does.
#[derive(clap::Args)]
pub(crate) struct PendingArgs {
    #[command(flatten)]
    common: Common,
}

/// Say yes or no to a question.
///
/// What cannot be undone must be named by its number; `aaep pending` shows it.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// The number of the question
    number: Option<u32>,
    #[command(flatten)]
    common: Common,
}

/// Answer a question in words, or with the number of a choice.
#[derive(clap::Args)]
pub(crate) struct AnswerArgs {
    /// The number of the question, if it is not the only one, then the answer
    #[arg(required = true, num_args = 1.., value_name = "[NUMBER] TEXT")]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
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
        // A word alone is the answer, be it a number or not.
        [first, rest @ ..] if !rest.is_empty() && first.parse::<u32>().is_ok() => (first.parse().ok(), rest.join(" ")),
        words => (None, words.join(" ")),
    };
    ask(&args.common, &ControlRequest::Answer { number, text })
}

fn ask(common: &Common, request: &ControlRequest) -> io::Result<CommandStatus> {
    let asked = runtime()?.block_on(async {
        let listeners = listeners(common.listener).await?;
        match listeners.as_slice() {
            [] => Err("no aaep listen is running for this user".to_owned()),
            [(_, path)] => {
                socket::call(path, request).await.map_err(|error| format!("the listener does not answer: {error}"))
            }
            several => {
                let pids: Vec<String> = several.iter().map(|(pid, _)| pid.to_string()).collect();
                Err(format!("several listeners run; choose one with --listener: {}", pids.join(", ")))
            }
        }
    });
    match asked {
        Ok(response) => report(common, request, &response),
        Err(mistake) => {
            complain(mistake);
            Ok(CommandStatus::Failed)
        }
    }
}

/// The listeners that answer. What a listener that is gone left behind does not count.
async fn listeners(wanted: Option<u32>) -> Result<Vec<(u32, PathBuf)>, String> {
    let directory = socket::directory().ok_or("XDG_RUNTIME_DIR is not set, so no listener can be found")?;
    let mut alive = Vec::new();
    for (pid, path) in socket::find(&directory) {
        if wanted.is_none_or(|wanted| wanted == pid) && socket::call(&path, &ControlRequest::Pending).await.is_ok() {
            alive.push((pid, path));
        }
    }
    Ok(alive)
}

fn report(common: &Common, request: &ControlRequest, response: &ControlResponse) -> io::Result<CommandStatus> {
    let mut out = io::stdout();
    let listing = *request == ControlRequest::Pending;
    if common.json {
        let text = json!({"ok": response.ok, "text": response.text, "questions": response.questions});
        writeln!(out, "{}", EscapedJson(text))?;
    } else if response.ok {
        writeln!(out, "{}", Escaped(&response.text))?;
    } else {
        complain(&response.text);
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

/// A question as it was put, and how long it waits.
fn lines(question: &Value) -> Vec<String> {
    let number = &question["number"];
    let said = question["said"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut lines: Vec<String> = said.map(|text| format!("Question {number}: {text}")).collect();
    let care = if question["needs_care"] == true { " It needs care: name its number." } else { "" };
    lines.push(format!("Question {number} waits for {} seconds.{care}", question["seconds_left"]));
    lines
}
