//! The `aaep` command, with one module per subcommand.
//!
//! Exit codes: 0 for success, 1 for a negative result, 2 for wrong usage or a problem of the environment.

mod answers;
mod audit;
mod backup;
mod capture;
mod demo;
mod drain;
mod keys;
mod listen;
mod logging;
mod manifest;
mod output;
mod private_file;
mod replay;
mod run;
mod runtime;
mod schema;
mod serve;
mod server_flags;
mod signals;
mod stdio;
mod token;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tools for the Agent Accessibility Event Protocol (AAEP).
#[derive(Parser)]
#[command(name = "aaep", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: AaepCommand,
}

// Without a doc comment here, a subcommand has the help of its arguments, which is longer.
#[derive(Subcommand)]
enum AaepCommand {
    Audit(audit::AuditArgs),
    Backup(backup::BackupArgs),
    Demo(demo::DemoArgs),
    Listen(listen::Args),
    Pending(answers::PendingArgs),
    /// Accept a confirmation
    Accept(answers::DecideArgs),
    /// Reject a confirmation
    Reject(answers::DecideArgs),
    Answer(answers::AnswerArgs),
    Run(run::RunArgs),
    Capture(capture::CaptureArgs),
    Replay(replay::ReplayArgs),
    Serve(serve::ServeArgs),
    Stdio(stdio::StdioArgs),
    Validate(validate::ValidateArgs),
    Schema(schema::SchemaArgs),
    Keys(keys::KeysArgs),
    Manifest(manifest::ManifestArgs),
    Token(token::TokenArgs),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandStatus {
    /// Exit code 0: success, or a positive result.
    Yes,
    /// Exit code 1: a negative result, such as an invalid document.
    No,
    /// Exit code 2: wrong usage or a problem of the environment, which was printed on standard error.
    Failed,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        AaepCommand::Audit(args) => audit::run(&args),
        AaepCommand::Backup(args) => backup::run(&args),
        AaepCommand::Demo(args) => demo::run(args),
        AaepCommand::Listen(args) => listen::run(args),
        AaepCommand::Pending(args) => answers::pending(&args),
        AaepCommand::Accept(args) => answers::accept(&args),
        AaepCommand::Reject(args) => answers::reject(&args),
        AaepCommand::Answer(args) => answers::answer(&args),
        // It has the exit code of the agent.
        AaepCommand::Run(args) => return run::run(args),
        AaepCommand::Capture(args) => capture::run(args),
        AaepCommand::Replay(args) => replay::run(args),
        AaepCommand::Serve(args) => serve::run(args),
        AaepCommand::Stdio(args) => stdio::run(args),
        AaepCommand::Validate(args) => validate::run(&args),
        AaepCommand::Schema(args) => schema::run(&args),
        AaepCommand::Keys(args) => keys::run(&args),
        AaepCommand::Manifest(args) => manifest::run(args),
        AaepCommand::Token(args) => token::run(&args),
    };
    let status = match result {
        Ok(status) => status,
        // The reader of the output has closed it, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => CommandStatus::Yes,
        Err(error) => output::fail(format_args!("cannot write the output: {error}")),
    };
    ExitCode::from(status as u8)
}
