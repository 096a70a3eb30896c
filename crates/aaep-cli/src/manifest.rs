//! `aaep manifest`: signs manifests and verifies them.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aaep_keys::manifest::MANIFEST_BYTES;
use aaep_keys::token::LEEWAY_SECONDS;
use aaep_keys::{KeySet, ManifestError, SigningKey, VerifiedManifest, file, sign_manifest_json, verify_manifest};
use aaep_proto::message::Message;
use aaep_proto::time::Timestamp;
use aaep_server::{Layer, Server};
use serde_json::json;

use crate::CommandStatus;
use crate::keys::give_up;
use crate::output::{Escaped, complain};
use crate::serve::{Flags, failed, runtime};

#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the manifest that a server with these settings would publish
    Print(Box<Print>),
    /// Sign a manifest and print it as a compact JWS
    Sign(Sign),
    /// Check who signed a manifest
    Verify(Verify),
}

#[derive(clap::Args)]
struct Print {
    /// Print it signed, as a compact JWS; needs --manifest-key
    #[arg(long)]
    signed: bool,
    #[command(flatten)]
    server: Flags,
}

#[derive(clap::Args)]
struct Sign {
    /// The manifest as JSON; '-' or nothing is standard input
    manifest: Option<PathBuf>,
    /// The private key file, see: aaep keys new
    #[arg(long)]
    key: PathBuf,
}

#[derive(clap::Args)]
struct Verify {
    /// The signed manifest; '-' or nothing is standard input
    file: Option<PathBuf>,
    /// The public keys that you trust: a JSON Web Key Set or PEM
    #[arg(long)]
    keys: PathBuf,
    /// The agent that it must be about
    #[arg(long)]
    agent_id: Option<String>,
    /// A JSON object instead of a line for people
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> io::Result<CommandStatus> {
    match args.command {
        Command::Print(args) => print(*args),
        Command::Sign(args) => sign(&args),
        Command::Verify(args) => verify(&args),
    }
}

fn print(args: Print) -> io::Result<CommandStatus> {
    let config = match args.server.config_over(Layer::default()) {
        Ok(config) => config,
        Err(error) => return Ok(failed(&error)),
    };
    let (manifest, signed) = match runtime()?.block_on(Server::manifest(&config)) {
        Ok(made) => made,
        Err(error) => return Ok(failed(&error)),
    };
    let text = match (args.signed, signed) {
        (false, _) => serde_json::to_string_pretty(&Message::from(manifest))?,
        (true, Some(jws)) => jws,
        (true, None) => {
            complain("there is no key to sign with; give --manifest-key, see: aaep keys new");
            return Ok(CommandStatus::Failed);
        }
    };
    writeln!(io::stdout(), "{text}")?;
    Ok(CommandStatus::Yes)
}

/// The time on the wall.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn sign(args: &Sign) -> io::Result<CommandStatus> {
    let key = match SigningKey::load(&args.key) {
        Ok(key) => key,
        Err(fault) => return give_up(&args.key, fault),
    };
    let path = args.manifest.as_deref().unwrap_or(Path::new("-"));
    let text = match input(path) {
        Ok(text) => text,
        Err(fault) => return give_up(path, fault),
    };
    match sign_manifest_json(text.as_bytes(), &key, now()) {
        Ok(jws) => writeln!(io::stdout().lock(), "{jws}").map(|()| CommandStatus::Yes),
        Err(ManifestError::Key(fault)) => give_up(&args.key, fault),
        Err(fault) => {
            complain(format_args!("{}: {fault}", path.display()));
            Ok(CommandStatus::No)
        }
    }
}

fn verify(args: &Verify) -> io::Result<CommandStatus> {
    let keys = match KeySet::load(&args.keys) {
        Ok(keys) => keys,
        Err(fault) => return give_up(&args.keys, fault),
    };
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    let text = match input(path) {
        Ok(text) => text,
        Err(fault) => return give_up(path, fault),
    };
    match judge(text.trim(), &keys, args.agent_id.as_deref()) {
        Ok(verified) => report(args, &verified).map(|()| CommandStatus::Yes),
        Err((code, message)) => {
            if args.json {
                writeln!(io::stdout().lock(), "{}", json!({"valid": false, "fault": code, "message": message}))?;
            } else {
                complain(format_args!("{}: {message}", path.display()));
            }
            Ok(CommandStatus::No)
        }
    }
}

/// A word and a sentence about what is wrong, or the manifest.
fn judge(jws: &str, keys: &KeySet, agent_id: Option<&str>) -> Result<VerifiedManifest, (&'static str, String)> {
    let verified = verify_manifest(jws, keys).map_err(|fault| (fault.code(), fault.to_string()))?;
    verified.check_time(now(), LEEWAY_SECONDS).map_err(|misfit| (misfit.code(), misfit.to_string()))?;
    match agent_id {
        Some(wanted) if wanted != verified.manifest.agent_id => {
            Err(("agent-id", format!("it is the manifest of {:?}, not of {wanted:?}", verified.manifest.agent_id)))
        }
        _ => Ok(verified),
    }
}

fn report(args: &Verify, verified: &VerifiedManifest) -> io::Result<()> {
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

/// A file or standard input, bounded.
fn input(path: &Path) -> Result<String, String> {
    if path.as_os_str() != "-" {
        return file::read_public(path).map_err(|fault| fault.to_string());
    }
    if io::stdin().is_terminal() {
        complain("reading what you type; end with Control-D");
    }
    let mut text = String::new();
    match io::stdin().take(MANIFEST_BYTES as u64 + 1).read_to_string(&mut text) {
        Ok(length) if length > MANIFEST_BYTES => Err(format!("is larger than {MANIFEST_BYTES} bytes")),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
