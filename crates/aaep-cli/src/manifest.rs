//! `aaep manifest`: prints, signs and verifies manifests.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use aaep_keys::manifest::MANIFEST_BYTES;
use aaep_keys::token::LEEWAY_SECONDS;
use aaep_keys::{KeySet, ManifestError, SigningKey, VerifiedManifest, file, sign_manifest_json, verify_manifest};
use aaep_proto::message::Message;
use aaep_proto::time::Timestamp;
use aaep_runtime::system_time;
use aaep_server::{Layer, Server, ServerManifest};
use serde_json::json;

use crate::CommandStatus;
use crate::output::{Escaped, fail, fail_at, print_error};
use crate::runtime::runtime;
use crate::server_flags::ServerFlags;

/// Print, sign or verify a manifest.
///
/// A manifest says what a producer offers. Subscribers that pass --signed-only demand a signed one.
#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(after_long_help = "\
Examples:
  aaep manifest print
  aaep manifest verify signed.jws --keys keys.json")]
pub(crate) struct ManifestArgs {
    #[command(subcommand)]
    command: ManifestCommand,
}

#[derive(clap::Subcommand)]
enum ManifestCommand {
    /// Print the manifest that a server with this configuration would publish
    ///
    /// It takes the flags, the variables and the configuration file of aaep serve.
    #[command(after_long_help = "Examples:\n  aaep manifest print --agent-id banker")]
    Print(Box<PrintManifestArgs>),
    /// Sign a manifest and print it as a compact JWS
    ///
    /// Exit code 1 if the document is not a manifest.
    #[command(after_long_help = "Examples:\n  aaep manifest print | aaep manifest sign --key signer.pem")]
    Sign(SignManifestArgs),
    /// Verify a signed manifest
    ///
    /// Checks the signature, the time and, with --agent-id, whose manifest it is. Exit code 1 if it is not valid.
    #[command(after_long_help = "Examples:\n  aaep manifest verify signed.jws --keys keys.json --agent-id banker")]
    Verify(VerifyManifestArgs),
}

#[derive(clap::Args)]
struct PrintManifestArgs {
    /// Print the signed manifest as a compact JWS; requires --manifest-key
    #[arg(long)]
    signed: bool,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(clap::Args)]
struct SignManifestArgs {
    /// Manifest (JSON); '-' for stdin [default: stdin]
    manifest: Option<PathBuf>,
    /// Private key file, see: aaep keys new
    #[arg(long)]
    key: PathBuf,
}

#[derive(clap::Args)]
struct VerifyManifestArgs {
    /// Signed manifest (compact JWS); '-' for stdin [default: stdin]
    file: Option<PathBuf>,
    /// Trusted public keys (JWKS or PEM)
    #[arg(long)]
    keys: PathBuf,
    /// Expected agent_id
    #[arg(long)]
    agent_id: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ManifestArgs) -> io::Result<CommandStatus> {
    match args.command {
        ManifestCommand::Print(args) => print(*args),
        ManifestCommand::Sign(args) => sign(&args),
        ManifestCommand::Verify(args) => verify(&args),
    }
}

fn print(args: PrintManifestArgs) -> io::Result<CommandStatus> {
    let config = match args.server.config_over(Layer::default()) {
        Ok(config) => config,
        Err(error) => return Ok(fail(error)),
    };
    let ServerManifest { manifest, signed } = match runtime()?.block_on(Server::manifest(&config)) {
        Ok(made) => made,
        Err(error) => return Ok(fail(error)),
    };
    let text = match (args.signed, signed) {
        (false, _) => serde_json::to_string_pretty(&Message::from(manifest))?,
        (true, Some(jws)) => jws,
        (true, None) => return Ok(fail("--signed requires --manifest-key, see: aaep keys new")),
    };
    writeln!(io::stdout(), "{text}")?;
    Ok(CommandStatus::Yes)
}

fn sign(args: &SignManifestArgs) -> io::Result<CommandStatus> {
    let key = match SigningKey::load(&args.key) {
        Ok(key) => key,
        Err(error) => return Ok(fail_at(&args.key, error)),
    };
    let path = args.manifest.as_deref().unwrap_or(Path::new("-"));
    let text = match read_input(path) {
        Ok(text) => text,
        Err(error) => return Ok(fail_at(path, error)),
    };
    match sign_manifest_json(text.as_bytes(), &key, system_time()) {
        Ok(jws) => writeln!(io::stdout().lock(), "{jws}").map(|()| CommandStatus::Yes),
        Err(ManifestError::Key(error)) => Ok(fail_at(&args.key, error)),
        Err(error) => {
            print_error(format_args!("{}: {error}", path.display()));
            Ok(CommandStatus::No)
        }
    }
}

fn verify(args: &VerifyManifestArgs) -> io::Result<CommandStatus> {
    let keys = match KeySet::load(&args.keys) {
        Ok(keys) => keys,
        Err(error) => return Ok(fail_at(&args.keys, error)),
    };
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    let text = match read_input(path) {
        Ok(text) => text,
        Err(error) => return Ok(fail_at(path, error)),
    };
    match check(text.trim(), &keys, args.agent_id.as_deref()) {
        Ok(verified) => report(args, &verified).map(|()| CommandStatus::Yes),
        Err((code, message)) => {
            if args.json {
                writeln!(io::stdout().lock(), "{}", json!({"valid": false, "fault": code, "message": message}))?;
            } else {
                print_error(format_args!("{}: {message}", path.display()));
            }
            Ok(CommandStatus::No)
        }
    }
}

/// Verifies a manifest. The error is a code and a message.
fn check(jws: &str, keys: &KeySet, agent_id: Option<&str>) -> Result<VerifiedManifest, (&'static str, String)> {
    let verified = verify_manifest(jws, keys).map_err(|error| (error.code(), error.to_string()))?;
    verified.check_time(system_time(), LEEWAY_SECONDS).map_err(|error| (error.code(), error.to_string()))?;
    match agent_id {
        Some(wanted) if wanted != verified.manifest.agent_id => {
            Err(("agent-id", format!("agent_id is {:?}, expected {wanted:?}", verified.manifest.agent_id)))
        }
        _ => Ok(verified),
    }
}

fn report(args: &VerifyManifestArgs, verified: &VerifiedManifest) -> io::Result<()> {
    let VerifiedManifest { manifest, issued_at, expires_at, key, algorithm } = verified;
    let mut out = io::stdout().lock();
    if args.json {
        let manifest = Message::from(manifest.clone());
        let line = json!({"valid": true, "agent_id": verified.manifest.agent_id, "alg": algorithm.as_str(),
            "kid": key, "issued_at": issued_at, "expires_at": expires_at, "manifest": manifest});
        return writeln!(out, "{line}");
    }
    let agent = Escaped(&manifest.agent_id);
    let when = issued_at.map(|at| format!(" on {}", Timestamp::from_millis(at.saturating_mul(1000))));
    writeln!(out, "The manifest of {agent} was signed with {algorithm} by key {key}{}.", when.unwrap_or_default())
}

/// Reads a file or standard input, up to the maximum size of a manifest.
fn read_input(path: &Path) -> Result<String, String> {
    if path.as_os_str() != "-" {
        return file::read_public(path).map_err(|error| error.to_string());
    }
    if io::stdin().is_terminal() {
        print_error("reading from the terminal; press Ctrl-D to end");
    }
    let mut text = String::new();
    match io::stdin().take(MANIFEST_BYTES as u64 + 1).read_to_string(&mut text) {
        Ok(length) if length > MANIFEST_BYTES => Err(format!("is larger than {MANIFEST_BYTES} bytes")),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
