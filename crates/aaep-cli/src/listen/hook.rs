//! The user's own command for questions. It gets a question as JSON on its input and prints an answer. If it fails,
//! takes too long or prints anything else, nothing is answered.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::signals::separate_from_terminal;

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

/// Kills a shell and the programs that it has started, unless the shell has ended.
struct KillOnDrop(tokio::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        #[cfg(unix)]
        crate::signals::forward(&self.0, rustix::process::Signal::KILL);
        #[cfg(not(unix))]
        let _ = self.0.start_kill();
    }
}

/// Runs the command once. It is killed, with what it has started, when the future is dropped.
async fn run(command: &str, question: String) -> Result<String, String> {
    let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
    shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    separate_from_terminal(&mut shell);
    let mut child = KillOnDrop(shell.spawn().map_err(|error| error.to_string())?);
    let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
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
    let status = child.0.wait().await.map_err(|error| error.to_string())?;
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

    #[tokio::test]
    async fn programs_of_a_command_that_hangs_end_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let command = format!("sleep 600 & echo $! > {}; wait", file.display());
        assert_eq!(answer_of(&command, 1).await, Err("it took too long".to_owned()));
        let id: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        // A zombie has ended too: in a container there may be nobody to wait for it.
        let is_zombie = || std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| stat.contains(") Z "));
        while rustix::process::test_kill_process(id).is_ok() && !is_zombie() {
            assert!(tokio::time::Instant::now() < deadline, "the program still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
