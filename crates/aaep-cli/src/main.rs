//! The `aaep` command, with one module per subcommand.
//!
//! Exit codes: 0 for success, 1 for a negative result, 2 for wrong usage or a problem of the environment.

mod acp;
mod agent_name;
mod answers;
mod attach;
mod audit;
mod backup;
mod bridge;
mod browser;
mod capture;
mod completions;
mod connect_flags;
mod demo;
mod doctor;
mod drain;
mod forget;
mod hook;
mod input;
mod keys;
mod listen;
mod local_agents;
mod logging;
mod man;
mod manifest;
mod mcp;
mod output;
mod private_file;
mod remembered;
mod replay;
mod run;
mod runtime;
mod schema;
mod serve;
mod server_flags;
mod service_manager;
mod signals;
mod stdio;
mod terminal;
mod token;
mod up;
mod user_server;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Tools for the Agent Accessibility Event Protocol (AAEP).
///
/// Agents emit events; screen readers, braille displays and other subscribers receive them and answer questions. aaep COMMAND
/// --help has the details and examples of each command.
#[derive(Parser)]
#[command(name = "aaep", version, disable_help_subcommand = true)]
#[command(after_long_help = "\
Examples:
  aaep demo banking                     an agent to listen to
  aaep listen                           follow your agents and answer them
  aaep run -- python3 agent.py          serve an agent in any language
  aaep doctor                           what works here

Exit codes: 0 for success, 1 for a negative result, 2 for wrong usage or a problem of the environment.")]
struct Cli {
    #[command(subcommand)]
    command: AaepCommand,
}

// Without a doc comment here, a subcommand has the help of its arguments, which is longer.
#[derive(Subcommand)]
enum AaepCommand {
    Audit(audit::AuditArgs),
    Backup(backup::BackupArgs),
    Forget(forget::ForgetArgs),
    Demo(demo::DemoArgs),
    Listen(listen::Args),
    Pending(answers::PendingArgs),
    /// Accept a confirmation
    ///
    /// Needs a running `aaep listen`. Something irreversible is accepted only with its number. Exit code 1 if the question
    /// was not accepted: it has ended, or several are open and no number was given.
    #[command(after_long_help = "Examples:\n  aaep pending\n  aaep accept 1")]
    Accept(answers::DecideArgs),
    /// Reject a confirmation
    ///
    /// Needs a running `aaep listen`. Exit code 1 if the question was not rejected: it has ended, or several are open and no
    /// number was given.
    #[command(after_long_help = "Examples:\n  aaep pending\n  aaep reject 2")]
    Reject(answers::DecideArgs),
    Answer(answers::AnswerArgs),
    Run(run::RunArgs),
    Mcp(mcp::McpArgs),
    Acp(acp::AcpArgs),
    Attach(attach::AttachArgs),
    Detach(attach::DetachArgs),
    Up(up::UpArgs),
    Hook(hook::HookArgs),
    Capture(capture::CaptureArgs),
    Replay(replay::ReplayArgs),
    Serve(serve::ServeArgs),
    Stdio(stdio::StdioArgs),
    Validate(validate::ValidateArgs),
    Schema(schema::SchemaArgs),
    Keys(keys::KeysArgs),
    Manifest(manifest::ManifestArgs),
    Token(token::TokenArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
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

/// Returns the command with its help wrapped at words for the terminal.
fn command() -> clap::Command {
    // Zero is for outputs that are no terminal: there, lines are not wrapped.
    Cli::command().term_width(terminal::width(std::io::stdout()).unwrap_or(0))
}

fn main() -> ExitCode {
    let cli = match Cli::from_arg_matches(&command().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let result = match cli.command {
        AaepCommand::Audit(args) => audit::run(&args),
        AaepCommand::Backup(args) => backup::run(&args),
        AaepCommand::Forget(args) => forget::run(&args),
        AaepCommand::Demo(args) => demo::run(args),
        AaepCommand::Listen(args) => listen::run(args),
        AaepCommand::Pending(args) => answers::pending(&args),
        AaepCommand::Accept(args) => answers::accept(&args),
        AaepCommand::Reject(args) => answers::reject(&args),
        AaepCommand::Answer(args) => answers::answer(&args),
        // It has the exit code of the agent.
        AaepCommand::Run(args) => return run::run(args),
        // It has the exit code of the server.
        AaepCommand::Mcp(args) => return mcp::run(args),
        AaepCommand::Acp(args) => return acp::run(args),
        AaepCommand::Attach(args) => attach::attach(&args),
        AaepCommand::Detach(args) => attach::detach(&args),
        AaepCommand::Up(args) => up::run(&args),
        AaepCommand::Hook(args) => {
            hook::run(&args);
            // Any other exit code would be a refusal for some agents.
            return ExitCode::SUCCESS;
        }
        AaepCommand::Capture(args) => capture::run(args),
        AaepCommand::Replay(args) => replay::run(args),
        AaepCommand::Serve(args) => serve::run(args),
        AaepCommand::Stdio(args) => stdio::run(args),
        AaepCommand::Validate(args) => validate::run(&args),
        AaepCommand::Schema(args) => schema::run(&args),
        AaepCommand::Keys(args) => keys::run(&args),
        AaepCommand::Manifest(args) => manifest::run(args),
        AaepCommand::Token(args) => token::run(&args),
        AaepCommand::Doctor(args) => doctor::run(&args),
        AaepCommand::Completions(args) => completions::run(&args),
        AaepCommand::Man(args) => man::run(&args),
    };
    let status = match result {
        Ok(status) => status,
        // The reader of the output has closed it, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => CommandStatus::Yes,
        Err(error) => output::fail(format_args!("cannot write the output: {error}")),
    };
    ExitCode::from(status as u8)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn check(command: &Command, path: &str) {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
        }
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            let short = inner.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!short.is_empty() && !short.ends_with('.'), "{path} needs a summary without a full stop: {short}");
            let long = inner.get_long_about().map(ToString::to_string).unwrap_or_default();
            let is_longer = long.starts_with(&short) && long.len() > short.len() + 20;
            assert!(is_longer, "{path} --help says no more than {path} -h");
            let examples = inner.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&path), "{path} --help has no example");
            check(inner, &path);
        }
    }

    #[test]
    fn every_command_has_a_summary_details_and_an_example() {
        check(&Cli::command(), "aaep");
    }

    /// One thing has one name: a flag with the same meaning is called alike in all commands.
    #[test]
    fn equal_flags_have_equal_names_and_help_is_consistent() {
        fn visit(command: &Command, seen: &mut Vec<(String, String)>) {
            for argument in command.get_arguments() {
                if let Some(long) = argument.get_long() {
                    seen.push((long.to_owned(), command.get_name().to_owned()));
                }
            }
            command.get_subcommands().for_each(|inner| visit(inner, seen));
        }
        let mut seen = Vec::new();
        visit(&Cli::command(), &mut seen);
        for old in ["token-file", "allow-plain", "principal"] {
            assert!(seen.iter().all(|(long, _)| long != old), "--{old} has another name in other commands");
        }
        for (flag, commands) in
            [("token", ["listen", "capture"]), ("plain", ["listen", "capture"]), ("subject", ["new", "static"])]
        {
            for command in commands {
                assert!(seen.contains(&(flag.to_owned(), command.to_owned())), "{command} has no --{flag}");
            }
        }
    }

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
