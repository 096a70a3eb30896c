//! The `aaep` command: one file per verb, results as exit codes.
//!
//! 0 is yes, 1 is no, 2 is a mistake in the call or in the environment.

#[cfg(unix)]
mod answers;
mod audit;
mod backup;
mod capture;
mod demo;
mod keys;
mod linger;
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
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
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
pub(crate) enum Outcome {
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
        Verb::Audit(args) => audit::run(&args),
        Verb::Backup(args) => backup::run(&args),
        Verb::Demo(args) => demo::run(args),
        Verb::Listen(args) => listen::run(args),
        #[cfg(unix)]
        Verb::Pending(args) => answers::pending(&args),
        #[cfg(unix)]
        Verb::Accept(args) => answers::accept(&args),
        #[cfg(unix)]
        Verb::Reject(args) => answers::reject(&args),
        #[cfg(unix)]
        Verb::Answer(args) => answers::answer(&args),
        // It ends as the agent does.
        Verb::Run(args) => return run::run(args),
        Verb::Capture(args) => capture::run(args),
        Verb::Replay(args) => replay::run(args),
        Verb::Serve(args) => serve::run(args),
        Verb::Stdio(args) => stdio::run(args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Keys(args) => keys::run(&args),
        Verb::Manifest(args) => manifest::run(args),
        Verb::Token(args) => token::run(&args),
    };
    let outcome = match result {
        Ok(outcome) => outcome,
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Outcome::Yes,
        Err(error) => {
            output::complain(format_args!("cannot write the output: {error}"));
            Outcome::Failed
        }
    };
    ExitCode::from(outcome as u8)
}
