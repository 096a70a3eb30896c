//! `aaep backup`: a consistent copy of a server's data, also while the server runs.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::CommandStatus;
use crate::output::{complain, count};

/// Copy what a server keeps, also while it runs.
///
/// The copy is of one moment, whole and checked. To restore it, stop the server and start it with --data TO, or move the
/// copy to where the data was. Copying the files by other means while the server runs gives a store that is not whole and
/// is refused.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the server keeps its data
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Where to put the copy: a directory that is new or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
}

pub(crate) fn run(args: &Args) -> io::Result<CommandStatus> {
    match aaep_store::backup(&args.from, &args.to) {
        Ok(made) => {
            let (decisions, bytes) = (count(made.decisions, "decision"), count(made.bytes, "byte"));
            writeln!(
                io::stdout(),
                "{} holds a copy of {}: {decisions}, {bytes}.",
                args.to.display(),
                args.from.display()
            )?;
            Ok(CommandStatus::Yes)
        }
        Err(error) => {
            complain(error);
            Ok(CommandStatus::Failed)
        }
    }
}
