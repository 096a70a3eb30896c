//! `aaep schema`: prints the published JSON Schemas.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_proto::schema;

use crate::{CommandStatus, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An event or message type, such as agent.tool.invoked or subscription.request; without one, all names are listed
    name: Option<String>,
    /// Write all schemas into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> io::Result<CommandStatus> {
    if let Some(directory) = &args.write {
        return Ok(write_all(directory));
    }
    let mut out = io::stdout().lock();
    let Some(name) = &args.name else {
        for entry in schema::all() {
            writeln!(out, "{}", entry.name)?;
        }
        return Ok(CommandStatus::Yes);
    };
    match schema::find(name) {
        Some(entry) => {
            writeln!(out, "{:#}", entry.schema())?;
            Ok(CommandStatus::Yes)
        }
        None => {
            output::complain(format_args!("there is no schema named {name}; run 'aaep schema' for the names"));
            Ok(CommandStatus::Failed)
        }
    }
}

fn write_all(directory: &std::path::Path) -> CommandStatus {
    for entry in schema::all() {
        let path = directory.join(&entry.path);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, format!("{:#}\n", entry.schema())));
        if let Err(error) = written {
            output::complain(format_args!("cannot write {}: {error}", path.display()));
            return CommandStatus::Failed;
        }
    }
    CommandStatus::Yes
}
