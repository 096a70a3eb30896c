//! `aaep forget`: deletes everything that a server has recorded of a user.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_store::Store;

use crate::CommandStatus;
use crate::output::{count, fail};

/// Delete everything that a server has recorded of a user.
///
/// Deletes the user's sessions, events, questions, decisions and subscriptions, and overwrites them in the file. Stop the
/// server first. Backups and captures are not changed. The answer is no if the server has recorded nothing of the user.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep forget ada --data /var/lib/aaep --yes")]
pub(crate) struct ForgetArgs {
    /// Id of the user
    #[arg(value_name = "USER")]
    user: String,
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Delete without asking: it cannot be undone
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &ForgetArgs) -> io::Result<CommandStatus> {
    let ForgetArgs { user, data, yes } = args;
    if !yes {
        return Ok(fail(format_args!("nothing was deleted: this cannot be undone, so add --yes to delete {user}")));
    }
    if !data.is_dir() {
        return Ok(fail(format_args!("{} is not a directory: name the data directory of the server", data.display())));
    }
    match Store::delete_user(data, user) {
        Ok(Some(records)) => {
            writeln!(io::stdout(), "Deleted {} of {user}.", count(records as u64, "record"))?;
            Ok(CommandStatus::Yes)
        }
        Ok(None) => {
            writeln!(io::stdout(), "Nothing is recorded of {user}.")?;
            Ok(CommandStatus::No)
        }
        Err(error) => Ok(fail(error)),
    }
}
