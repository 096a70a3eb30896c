//! `aaep completions`: completions of the command line for shells.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, CommandStatus};

/// Print the completions of a shell.
///
/// Save what it prints where your shell looks for completions, then start a new shell.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep completions bash > ~/.local/share/bash-completion/completions/aaep
  aaep completions zsh > ~/.zfunc/_aaep
  aaep completions fish > ~/.config/fish/completions/aaep.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> io::Result<CommandStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "aaep", &mut script);
    io::stdout().write_all(&script)?;
    Ok(CommandStatus::Yes)
}
