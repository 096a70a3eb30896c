//! The user's own command for questions. It gets a question as JSON on its input and prints an answer. If it fails,
//! takes too long or prints anything else, nothing is answered.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::JoinSet;

/// The most that is read of its output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// The longest that it may run, whatever the timeout of the question is.
const MAX_RUN_TIME: Duration = Duration::from_secs(24 * 3600);

/// What came of running the command for a question.
pub(crate) struct HookResult {
    /// The number of the question.
    pub(crate) number: u32,
    /// The first line of its output, or why it failed.
    pub(crate) result: Result<String, String>,
}

/// The commands that run.
#[derive(Default)]
pub(crate) struct Hooks {
    command: Option<String>,
    running: JoinSet<HookResult>,
}

impl Hooks {
    pub(crate) fn new(command: Option<String>) -> Hooks {
        Hooks { command, running: JoinSet::new() }
    }

    /// Runs the command for a question.
    pub(crate) fn run(&mut self, number: u32, question: &Value) {
        let Some(command) = self.command.clone() else { return };
        let seconds = question["seconds_left"].as_u64().unwrap_or(0).max(1);
        let question = question.to_string();
        self.running.spawn(async move {
            let limit = Duration::from_secs(seconds).min(MAX_RUN_TIME);
            let result = tokio::time::timeout(limit, run(&command, question)).await;
            HookResult { number, result: result.unwrap_or_else(|_| Err("it took too long".to_owned())) }
        });
    }

    /// Waits for the next command that ends; forever if none runs.
    pub(crate) async fn next(&mut self) -> HookResult {
        loop {
            match self.running.join_next().await {
                Some(Ok(result)) => return result,
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Runs the command once. It is killed when the future is dropped.
async fn run(command: &str, question: String) -> Result<String, String> {
    let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
    shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = shell.spawn().map_err(|error| error.to_string())?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input may still answer.
            let _ = stdin.write_all(format!("{question}\n").as_bytes()).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut output).await;
        }
        output
    };
    let ((), output) = tokio::join!(write, read);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    let output = String::from_utf8(output).map_err(|_| "it printed no text".to_owned())?;
    Ok(output.lines().next().unwrap_or("").trim().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use serde_json::json;

    async fn answer_of(command: &str, seconds: u64) -> Result<String, String> {
        let mut hooks = Hooks::new(Some(command.to_owned()));
        hooks.run(7, &json!({"seconds_left": seconds, "asks": "Pay?"}));
        let hook = hooks.next().await;
        assert_eq!(hook.number, 7);
        hook.result
    }

    #[tokio::test]
    async fn first_line_of_output_is_the_answer() {
        assert_eq!(answer_of("grep -q Pay && echo accept && echo reject", 60).await, Ok("accept".to_owned()));
        assert_eq!(answer_of("true", 60).await, Ok(String::new()));
    }

    #[tokio::test]
    async fn command_that_fails_or_hangs_answers_nothing() {
        assert!(answer_of("echo accept; exit 3", 60).await.unwrap_err().contains('3'));
        assert_eq!(answer_of("echo accept; sleep 600", 1).await, Err("it took too long".to_owned()));
        assert!(answer_of("head -c 100000 /dev/zero | tr '\\0' '\\377'", 60).await.is_err());
    }
}
