//! `aaep man`: manual pages.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::CommandFactory;

use crate::output::fail;
use crate::{Cli, CommandStatus};

/// Write the manual pages of all commands.
///
/// Each command has a page: aaep.1, aaep-listen.1 and so on. They say the same as --help.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep man ~/.local/share/man/man1
  man aaep-listen")]
pub(crate) struct ManArgs {
    /// Directory for the pages; it is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> io::Result<CommandStatus> {
    let directory = &args.directory;
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    if let Err(error) = written {
        return Ok(fail(format_args!("cannot write to {}: {error}", directory.display())));
    }
    writeln!(io::stdout(), "The pages are in {}.", directory.display())?;
    Ok(CommandStatus::Yes)
}
