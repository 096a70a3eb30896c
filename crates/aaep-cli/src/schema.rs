//! `aaep schema`: prints the JSON Schemas of events and messages.

use std::io::{self, Write};
use std::path::PathBuf;

use aaep_proto::schema;

use crate::CommandStatus;
use crate::output::fail;

/// Print JSON Schemas of events and messages.
///
/// The schemas are made from the same tables as the validator. They are also in the folder schemas of the project.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep schema
  aaep schema agent.awaiting.confirmation
  aaep schema --write schemas")]
pub(crate) struct SchemaArgs {
    /// Event or message type, such as agent.tool.invoked or subscription.request; without it, all names are listed
    name: Option<String>,
    /// Write all schemas to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &SchemaArgs) -> io::Result<CommandStatus> {
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
        None => Ok(fail(format_args!("unknown schema {name}; run 'aaep schema' for the names"))),
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
            return fail(format_args!("cannot write {}: {error}", path.display()));
        }
    }
    CommandStatus::Yes
}
