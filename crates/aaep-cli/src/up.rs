//! `aaep up`: the server of this user, in the background.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aaep_keys::{Identity, ParseUsersError, Role, StaticToken};

use crate::CommandStatus;
use crate::output::fail;
use crate::private_file;
use crate::user_server::{SUBJECT, UserServer, directory};

/// How long a new server may take to serve.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Start your server in the background, if none runs.
///
/// Agents with hooks (aaep attach) send their events to it, and aaep listen finds it. Only you can use it: its files are in
/// your runtime directory. It ends when you log out, or with aaep up --stop.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  aaep up\n  aaep up --stop")]
pub(crate) struct UpArgs {
    /// Stop the server instead
    #[arg(long)]
    stop: bool,
}

pub(crate) fn run(args: &UpArgs) -> io::Result<CommandStatus> {
    let runtime = crate::runtime::runtime()?;
    let running = UserServer::find().filter(|server| runtime.block_on(server.listeners()).is_some());
    match (running, args.stop) {
        (Some(server), false) => {
            writeln!(io::stdout(), "Your server runs at {}. To listen, run: aaep listen", server.address)?;
            Ok(CommandStatus::Yes)
        }
        (Some(server), true) => {
            stop(server.pid);
            UserServer::forget();
            writeln!(io::stdout(), "Your server was stopped.")?;
            Ok(CommandStatus::Yes)
        }
        (None, true) => {
            UserServer::forget();
            writeln!(io::stdout(), "No server runs.")?;
            Ok(CommandStatus::No)
        }
        (None, false) => match start() {
            Ok(server) => {
                writeln!(io::stdout(), "Your server was started at {}. To listen, run: aaep listen", server.address)?;
                Ok(CommandStatus::Yes)
            }
            Err(error) => Ok(fail(format_args!("cannot start the server: {error}"))),
        },
    }
}

fn start() -> Result<UserServer, String> {
    let directory = directory();
    let text = |error: io::Error| error.to_string();
    aaep_local::private_directory(&directory).map_err(text)?;
    let token = StaticToken::generate().map_err(|error| format!("a new token {error}"))?;
    let tokens = directory.join("up.tokens");
    // Listeners use the local socket, so agents act for its user.
    let users = Identity::LOCAL.parse().map_err(|error: ParseUsersError| error.to_string())?;
    let line = token.line(SUBJECT, &[Role::Produce, Role::Admin].into(), &users);
    let mut file = private_file::options().write(true).truncate(true).open(&tokens).map_err(text)?;
    writeln!(file, "{line}").map_err(text)?;
    let log = directory.join("up.log");
    let output = private_file::options().write(true).truncate(true).open(&log).map_err(text)?;
    let program = std::env::current_exe().map_err(text)?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--tokens"]).arg(&tokens);
    let errors = output.try_clone().map_err(text)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir("/");
    // Not ended with the terminal.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(text)?;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let written = std::fs::read_to_string(&log).unwrap_or_default();
        let address = written.lines().find_map(|line| line.strip_prefix("Serving at http://"));
        if let Some(address) = address {
            let server = UserServer {
                address: address.trim().trim_end_matches('/').to_owned(),
                token: token.secret().to_owned(),
                pid: child.id(),
            };
            server.save().map_err(text)?;
            return Ok(server);
        }
        if let Ok(Some(_)) = child.try_wait() {
            return Err(written.lines().last().unwrap_or("it has ended").trim_start_matches("aaep: ").to_owned());
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err(format!("it does not serve; see {}", log.display()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
fn stop(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may just have ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn stop(pid: u32) {
    let _ = Command::new("taskkill").args(["/PID", &pid.to_string(), "/F"]).status();
}
