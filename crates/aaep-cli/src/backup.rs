//! `aaep backup`: a consistent copy of the data of a server, even while the server runs.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::CommandStatus;
use crate::output::{count, fail};

/// Back up the data of a server, even while it runs.
///
/// The copy is a consistent, verified snapshot. To restore it, stop the server and start it with --data TO, or move the
/// copy to the original directory. Do not copy the files in other ways while the server runs: the copy is incomplete, and
/// servers refuse it.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep backup /var/lib/aaep /backup/aaep-monday")]
pub(crate) struct BackupArgs {
    /// Data directory of the server
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// New or empty directory for the copy
    #[arg(value_name = "TO")]
    to: PathBuf,
}

pub(crate) fn run(args: &BackupArgs) -> io::Result<CommandStatus> {
    match aaep_store::backup(&args.from, &args.to) {
        Ok(made) => {
            let (decisions, bytes) = (count(made.decisions, "decision"), count(made.bytes, "byte"));
            writeln!(
                io::stdout(),
                "{} is a copy of {}: {decisions}, {bytes}.",
                args.to.display(),
                args.from.display()
            )?;
            Ok(CommandStatus::Yes)
        }
        Err(error) => Ok(fail(error)),
    }
}
