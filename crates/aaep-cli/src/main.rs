//! The `aaep` command, with one module per subcommand.
//!
//! Exit codes: 0 for success, 1 for a negative result, 2 for wrong usage or a problem of the environment.

mod answers;
mod audit;
mod backup;
mod capture;
mod clock;
mod demo;
mod drain;
mod entropy;
mod keys;
mod listen;
mod logging;
mod manifest;
mod output;
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

#[derive(Subcommand)]
enum AaepCommand {
    /// List or export recorded decisions
    Audit(audit::AuditArgs),
    /// Back up the data of a server, even while it runs
    Backup(backup::BackupArgs),
    /// Run a scripted demo agent
    Demo(demo::DemoArgs),
    /// Listen to agents and answer them
    Listen(listen::Args),
    /// List open questions
    Pending(answers::PendingArgs),
    /// Accept a confirmation
    Accept(answers::DecideArgs),
    /// Reject a confirmation
    Reject(answers::DecideArgs),
    /// Answer a clarification
    Answer(answers::AnswerArgs),
    /// Run an agent written in any language and serve its events
    Run(run::RunArgs),
    /// Record the events of an agent
    Capture(capture::CaptureArgs),
    /// Replay or describe a recording
    Replay(replay::ReplayArgs),
    /// Serve agents and subscribers
    Serve(serve::ServeArgs),
    /// Serve the parent process over stdin and stdout
    Stdio(stdio::StdioArgs),
    /// Validate events and messages
    Validate(validate::ValidateArgs),
    /// Print JSON Schemas of events and messages
    Schema(schema::SchemaArgs),
    /// Create keys and print public keys
    Keys(keys::KeysArgs),
    /// Print, sign or verify a manifest
    Manifest(manifest::ManifestArgs),
    /// Create tokens for clients and agents
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
