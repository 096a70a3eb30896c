//! The user's own command for questions: it gets a question as JSON and prints an answer. If it fails, takes too long
//! or says anything else, nothing is answered.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::JoinSet;

/// The most that is read of its output.
const OUTPUT: u64 = 64 * 1024;
/// The longest that it may take, whatever the question allows.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Commands that were asked.
#[derive(Default)]
pub(crate) struct Hooks {
    command: Option<String>,
    asked: JoinSet<(u32, Result<String, String>)>,
}

impl Hooks {
    pub(crate) fn new(command: Option<String>) -> Hooks {
        Hooks { command, asked: JoinSet::new() }
    }

    /// Asks the command about a question.
    pub(crate) fn ask(&mut self, number: u32, question: &Value) {
        let Some(command) = self.command.clone() else { return };
        let seconds = question["seconds_left"].as_u64().unwrap_or(0).max(1);
        let question = question.to_string();
        self.asked.spawn(async move {
            let limit = Duration::from_secs(seconds).min(LONGEST);
            let asked = tokio::time::timeout(limit, ask(&command, question)).await;
            (number, asked.unwrap_or_else(|_| Err("it took too long".to_owned())))
        });
    }

    /// The next answer: the first line, or why there is none. Waits for ever if nothing was asked.
    pub(crate) async fn next(&mut self) -> Option<(u32, Result<String, String>)> {
        loop {
            match self.asked.join_next().await {
                Some(Ok(answer)) => return Some(answer),
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// It ends when nobody waits for it any more.
async fn ask(command: &str, question: String) -> Result<String, String> {
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
            let _ = stdout.take(OUTPUT).read_to_end(&mut output).await;
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

    async fn asked(command: &str, seconds: u64) -> Result<String, String> {
        let mut hooks = Hooks::new(Some(command.to_owned()));
        hooks.ask(7, &json!({"seconds_left": seconds, "asks": "Pay?"}));
        let (number, answer) = hooks.next().await.expect("a hook was asked");
        assert_eq!(number, 7);
        answer
    }

    #[tokio::test]
    async fn its_first_line_is_the_answer() {
        assert_eq!(asked("grep -q Pay && echo accept && echo reject", 60).await, Ok("accept".to_owned()));
        assert_eq!(asked("true", 60).await, Ok(String::new()));
    }

    #[tokio::test]
    async fn a_command_that_fails_or_hangs_answers_nothing() {
        assert!(asked("echo accept; exit 3", 60).await.unwrap_err().contains('3'));
        assert_eq!(asked("echo accept; sleep 600", 1).await, Err("it took too long".to_owned()));
        assert!(asked("head -c 100000 /dev/zero | tr '\\0' '\\377'", 60).await.is_err());
    }
}
