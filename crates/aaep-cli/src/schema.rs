//! `aaep schema`: prints JSON Schemas, the API documents of the server and the reference of all fields.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_proto::schema;
use aaep_server::api;
use serde_json::Value;

use crate::CommandStatus;
use crate::output::fail;

/// Print JSON Schemas of events and messages, or descriptions of the server's API.
///
/// All of them are made from the same tables as the validator. They are also in the folder schemas of the project.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep schema
  aaep schema agent.awaiting.confirmation
  aaep schema --write schemas")]
pub(crate) struct SchemaArgs {
    /// Event or message type, such as agent.tool.invoked or subscription.request; openapi for the HTTP endpoints, asyncapi
    /// for event streams and WebSockets; without it, all names are listed
    name: Option<String>,
    /// Write all of them to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    write: Option<PathBuf>,
    /// Print the reference of all fields as Markdown
    #[arg(long, conflicts_with_all = ["name", "write"])]
    markdown: bool,
}

/// A document that describes the API of the server.
struct ApiDocument {
    name: &'static str,
    path: &'static str,
    document: fn() -> Value,
}

const API_DOCUMENTS: [ApiDocument; 2] = [
    ApiDocument { name: "openapi", path: "openapi.json", document: api::openapi },
    ApiDocument { name: "asyncapi", path: "asyncapi.json", document: api::asyncapi },
];

pub(crate) fn run(args: &SchemaArgs) -> io::Result<CommandStatus> {
    if let Some(directory) = &args.write {
        return Ok(write_all(directory));
    }
    let mut out = io::stdout().lock();
    if args.markdown {
        out.write_all(schema::reference().as_bytes())?;
        return Ok(CommandStatus::Yes);
    }
    let Some(name) = &args.name else {
        let schemas = schema::all().into_iter().map(|entry| entry.name);
        for name in schemas.chain(API_DOCUMENTS.map(|api| api.name.to_owned())) {
            writeln!(out, "{name}")?;
        }
        return Ok(CommandStatus::Yes);
    };
    let api = || API_DOCUMENTS.iter().find(|api| api.name == name).map(|api| (api.document)());
    match schema::find(name).map(|entry| entry.schema()).or_else(api) {
        Some(document) => {
            writeln!(out, "{document:#}")?;
            Ok(CommandStatus::Yes)
        }
        None => Ok(fail(format_args!("unknown schema {name}; run 'aaep schema' for the names"))),
    }
}

fn write_all(directory: &Path) -> CommandStatus {
    let schemas = schema::all().into_iter().map(|entry| (entry.path.clone(), entry.schema()));
    let documents = API_DOCUMENTS.iter().map(|api| (api.path.to_owned(), (api.document)()));
    for (name, document) in schemas.chain(documents) {
        let path = directory.join(name);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, format!("{document:#}\n")));
        if let Err(error) = written {
            return fail(format_args!("cannot write {}: {error}", path.display()));
        }
    }
    CommandStatus::Yes
}
