//! The `aaep` command: one file per verb, results as exit codes.
//!
//! 0 is yes, 1 is no, 2 is a mistake in the call or in the environment.

#[cfg(unix)]
mod answers;
mod audit;
mod backup;
mod capture;
mod demo;
mod drain;
mod keys;
mod listen;
mod manifest;
mod output;
mod replay;
mod run;
mod schema;
mod serve;
mod stdio;
mod token;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Agents that assistive technology can hear: tools for the Agent Accessibility Event Protocol.
#[derive(Parser)]
#[command(name = "aaep", version, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    verb: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List and export what was decided
    Audit(audit::Args),
    /// Copy what a server keeps, also while it runs
    Backup(backup::Args),
    /// Play an agent that can be heard, and answer it
    Demo(demo::Args),
    /// Listen to agents, and answer them
    Listen(listen::Args),
    /// Show the questions that wait for you
    #[cfg(unix)]
    Pending(answers::PendingArgs),
    /// Say yes to a question
    #[cfg(unix)]
    Accept(answers::DecideArgs),
    /// Say no to a question
    #[cfg(unix)]
    Reject(answers::DecideArgs),
    /// Answer a question in words
    #[cfg(unix)]
    Answer(answers::AnswerArgs),
    /// Run an agent in any language, and serve what it says
    Run(run::Args),
    /// Record what an agent says
    Capture(capture::Args),
    /// Tell a recording again, or tell about it
    Replay(replay::Args),
    /// Serve agents and listeners
    Serve(serve::Args),
    /// Serve the program that started this one
    Stdio(stdio::Args),
    /// Check events and messages against the protocol
    Validate(validate::Args),
    /// Print the JSON Schema of an event or message
    Schema(schema::Args),
    /// Make keys and show their public halves
    Keys(keys::Args),
    /// Print, sign and verify manifests
    Manifest(manifest::Args),
    /// Make tokens for clients and agents
    Token(token::Args),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandStatus {
    /// All is well.
    Yes,
    /// The answer is no.
    No,
    /// The call or the environment is wrong; a line on standard error says how.
    Failed,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.verb {
        Command::Audit(args) => audit::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Demo(args) => demo::run(args),
        Command::Listen(args) => listen::run(args),
        #[cfg(unix)]
        Command::Pending(args) => answers::pending(&args),
        #[cfg(unix)]
        Command::Accept(args) => answers::accept(&args),
        #[cfg(unix)]
        Command::Reject(args) => answers::reject(&args),
        #[cfg(unix)]
        Command::Answer(args) => answers::answer(&args),
        // It ends as the agent does.
        Command::Run(args) => return run::run(args),
        Command::Capture(args) => capture::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Stdio(args) => stdio::run(args),
        Command::Validate(args) => validate::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Manifest(args) => manifest::run(args),
        Command::Token(args) => token::run(&args),
    };
    let outcome = match result {
        Ok(outcome) => outcome,
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => CommandStatus::Yes,
        Err(error) => {
            output::complain(format_args!("cannot write the output: {error}"));
            CommandStatus::Failed
        }
    };
    ExitCode::from(outcome as u8)
}
