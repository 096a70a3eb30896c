//! `aaep keys`: creates key pairs and prints public keys.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_keys::{Algorithm, KeyError, KeySet, PublicKey, SigningKey, file};
use serde_json::json;

use crate::CommandStatus;
use crate::output::{Escaped, fail_at};

/// Create keys and print public keys.
///
/// Keys sign tokens (aaep token new) and manifests (aaep serve --manifest-key). The private key stays in its file; others get
/// the public one.
#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(after_long_help = "\
Examples:
  aaep keys new signer.pem
  aaep keys jwks signer.pem > keys.json")]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(clap::Subcommand)]
enum KeysCommand {
    /// Create a key pair: the private key in FILE, the public key in FILE.pub.json
    ///
    /// Nothing is overwritten. Only you can read the private key.
    #[command(after_long_help = "Examples:\n  aaep keys new signer.pem")]
    New(NewKeyArgs),
    /// Print a public key as a JSON Web Key
    ///
    /// FILE may be a private key, a public key or a JSON Web Key Set. Private parts are never printed.
    #[command(after_long_help = "Examples:\n  aaep keys show signer.pem\n  aaep keys show signer.pem --pem")]
    Show(ShowKeyArgs),
    /// Print public keys as a JSON Web Key Set; include the old and the new key during rotation
    ///
    /// The set is what a server reads with --jwks to check tokens.
    #[command(after_long_help = "Examples:\n  aaep keys jwks old.pem new.pem > keys.json")]
    Jwks(JwksArgs),
}

#[derive(clap::Args)]
struct NewKeyArgs {
    /// File for the private key. It must not exist; only you will be able to read it
    file: PathBuf,
    /// Signature algorithm
    #[arg(long, value_enum, default_value = "es256")]
    alg: KeyAlgorithm,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ShowKeyArgs {
    /// Private key file, public key file or JSON Web Key Set
    file: PathBuf,
    /// Print PEM instead of JSON; FILE must be a private key file
    #[arg(long)]
    pem: bool,
}

#[derive(clap::Args)]
struct JwksArgs {
    /// Private key files, public key files or JSON Web Key Sets
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum KeyAlgorithm {
    /// ECDSA on P-256; recommended by the specification
    Es256,
    /// Ed25519
    Eddsa,
    /// RSA with 3072 bits, for compatibility with old software
    Rs256,
}

pub(crate) fn run(args: &KeysArgs) -> io::Result<CommandStatus> {
    match &args.command {
        KeysCommand::New(args) => new(args),
        KeysCommand::Show(args) => show(args),
        KeysCommand::Jwks(args) => jwks(args),
    }
}

fn new(args: &NewKeyArgs) -> io::Result<CommandStatus> {
    let algorithm = match args.alg {
        KeyAlgorithm::Es256 => Algorithm::Es256,
        KeyAlgorithm::Eddsa => Algorithm::EdDsa,
        KeyAlgorithm::Rs256 => Algorithm::Rs256,
    };
    let key = match SigningKey::generate(algorithm) {
        Ok(key) => key,
        Err(error) => return Ok(fail_at(&args.file, error)),
    };
    if let Err(error) = key.write_new(&args.file) {
        return Ok(fail_at(&args.file, error));
    }
    let mut public = args.file.clone().into_os_string();
    public.push(".pub.json");
    let public = PathBuf::from(public);
    let jwks = KeySet::from_iter([key.public().clone()]).to_jwks() + "\n";
    if let Err(error) = file::write_public(&public, &jwks) {
        // The private key was not used yet, and a second attempt must not find its file.
        let _ = std::fs::remove_file(&args.file);
        return Ok(fail_at(&public, error));
    }
    let mut out = io::stdout().lock();
    let (private, public) = (args.file.display().to_string(), public.display().to_string());
    if args.json {
        let line = json!({"alg": algorithm.as_str(), "kid": key.kid(), "private": private, "public": public});
        writeln!(out, "{line}")?;
    } else {
        let (private, public) = (Escaped(&private), Escaped(&public));
        writeln!(out, "Private key: {private} (keep it secret)")?;
        writeln!(out, "Public key: {public} (give it to verifiers)")?;
        writeln!(out, "Key id: {}", key.kid())?;
    }
    Ok(CommandStatus::Yes)
}

fn show(args: &ShowKeyArgs) -> io::Result<CommandStatus> {
    let mut out = io::stdout().lock();
    if args.pem {
        return match SigningKey::load(&args.file).and_then(|key| key.public_pem()) {
            Ok(pem) => write!(out, "{pem}").map(|()| CommandStatus::Yes),
            Err(error) => Ok(fail_at(&args.file, error)),
        };
    }
    match public_keys(&args.file) {
        Ok(keys) => {
            for key in keys.iter() {
                writeln!(out, "{:#}", key.to_jwk())?;
            }
            Ok(CommandStatus::Yes)
        }
        Err(error) => Ok(fail_at(&args.file, error)),
    }
}

fn jwks(args: &JwksArgs) -> io::Result<CommandStatus> {
    let mut keys: Vec<PublicKey> = Vec::new();
    for file in &args.files {
        match public_keys(file) {
            Ok(set) => keys.extend(set.iter().cloned()),
            Err(error) => return Ok(fail_at(file, error)),
        }
    }
    writeln!(io::stdout().lock(), "{}", KeySet::from_iter(keys).to_jwks())?;
    Ok(CommandStatus::Yes)
}

/// Reads the public keys of a private key file, a public key file or a key set.
fn public_keys(path: &Path) -> Result<KeySet, KeyError> {
    match KeySet::load(path) {
        Err(KeyError::PrivateKey) => {
            SigningKey::load(path).map(|key| KeySet::from_iter([key.public().clone()])).map_err(|error| match error {
                // A JSON Web Key with its secret. This command does not create such files and must not print them.
                KeyError::NotPem => KeyError::PrivateKey,
                error => error,
            })
        }
        result => result,
    }
}
