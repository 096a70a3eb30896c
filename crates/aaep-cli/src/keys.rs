//! `aaep keys`: makes key pairs and shows their public halves.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_keys::{Algorithm, KeyError, KeySet, PublicKey, SigningKey, file};
use serde_json::json;

use crate::CommandStatus;
use crate::output::{Escaped, complain};

#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a key pair: the private key in FILE, the public one in FILE.pub.json
    New(New),
    /// Print the public half of a key as a JSON Web Key
    Show(Show),
    /// Print the public halves of keys as a JSON Web Key Set; name the old and the new key while you rotate them
    Jwks(Jwks),
}

#[derive(clap::Args)]
struct New {
    /// The file for the private key. It must not exist; only you can read it
    file: PathBuf,
    /// How it signs
    #[arg(long, value_enum, default_value = "es256")]
    alg: Alg,
    /// A JSON object instead of a line for people
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Show {
    /// A private key file, a public key file or a JSON Web Key Set
    file: PathBuf,
    /// PEM instead of JSON; for private key files
    #[arg(long)]
    pem: bool,
}

#[derive(clap::Args)]
struct Jwks {
    /// Private key files, public key files or JSON Web Key Sets
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Alg {
    /// ECDSA on P-256, as the specification recommends
    Es256,
    /// Ed25519
    Eddsa,
    /// RSA of 3072 bits, for old software
    Rs256,
}

pub(crate) fn run(args: &Args) -> io::Result<CommandStatus> {
    match &args.command {
        Command::New(args) => new(args),
        Command::Show(args) => show(args),
        Command::Jwks(args) => jwks(args),
    }
}

/// Says what is wrong with a file.
pub(crate) fn give_up(path: &Path, fault: impl std::fmt::Display) -> io::Result<CommandStatus> {
    complain(format_args!("{} {fault}", path.display()));
    Ok(CommandStatus::Failed)
}

fn new(args: &New) -> io::Result<CommandStatus> {
    let algorithm = match args.alg {
        Alg::Es256 => Algorithm::Es256,
        Alg::Eddsa => Algorithm::EdDsa,
        Alg::Rs256 => Algorithm::Rs256,
    };
    let key = match SigningKey::generate(algorithm) {
        Ok(key) => key,
        Err(fault) => return give_up(&args.file, fault),
    };
    if let Err(fault) = key.write_new(&args.file) {
        return give_up(&args.file, fault);
    }
    let mut public = args.file.clone().into_os_string();
    public.push(".pub.json");
    let public = PathBuf::from(public);
    let jwks = KeySet::from_iter([key.public().clone()]).to_jwks() + "\n";
    if let Err(fault) = file::write_public(&public, &jwks) {
        // Nobody has used the private key yet, and a second attempt should find its place free.
        let _ = std::fs::remove_file(&args.file);
        return give_up(&public, fault);
    }
    let mut out = io::stdout().lock();
    let (private, public) = (args.file.display().to_string(), public.display().to_string());
    if args.json {
        let line = json!({"alg": algorithm.as_str(), "kid": key.kid(), "private": private, "public": public});
        writeln!(out, "{line}")?;
    } else {
        let (private, public) = (Escaped(&private), Escaped(&public));
        writeln!(out, "The private key is in {private}: keep it to yourself.")?;
        writeln!(out, "The public key is in {public}: give it to those who verify.")?;
        writeln!(out, "The key is called {}.", key.kid())?;
    }
    Ok(CommandStatus::Yes)
}

fn show(args: &Show) -> io::Result<CommandStatus> {
    let mut out = io::stdout().lock();
    if args.pem {
        return match SigningKey::load(&args.file).and_then(|key| key.public_pem()) {
            Ok(pem) => write!(out, "{pem}").map(|()| CommandStatus::Yes),
            Err(fault) => give_up(&args.file, fault),
        };
    }
    match public_keys(&args.file) {
        Ok(keys) => {
            for key in keys.iter() {
                writeln!(out, "{:#}", key.to_jwk())?;
            }
            Ok(CommandStatus::Yes)
        }
        Err(fault) => give_up(&args.file, fault),
    }
}

fn jwks(args: &Jwks) -> io::Result<CommandStatus> {
    let mut keys: Vec<PublicKey> = Vec::new();
    for file in &args.files {
        match public_keys(file) {
            Ok(set) => keys.extend(set.iter().cloned()),
            Err(fault) => return give_up(file, fault),
        }
    }
    writeln!(io::stdout().lock(), "{}", KeySet::from_iter(keys).to_jwks())?;
    Ok(CommandStatus::Yes)
}

/// The public keys of a file of any kind.
fn public_keys(path: &Path) -> Result<KeySet, KeyError> {
    match KeySet::load(path) {
        Err(KeyError::PrivateKey) => {
            SigningKey::load(path).map(|key| KeySet::from_iter([key.public().clone()])).map_err(|fault| match fault {
                // A JSON Web Key with its secret: not what this command makes, and not what it should spread.
                KeyError::NotPem => KeyError::PrivateKey,
                fault => fault,
            })
        }
        result => result,
    }
}
