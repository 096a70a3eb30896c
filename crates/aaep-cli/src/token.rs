//! `aaep token`: creates tokens for clients and agents.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use aaep_keys::{Identity, NamedUsers, NewToken, Role, SigningKey, StaticToken, StaticTokens};
use aaep_proto::time::Timestamp;
use aaep_runtime::system_time;
use serde_json::json;

use crate::CommandStatus;
use crate::output::{fail, fail_at};

/// Maximum lifetime of a token.
const MAX_LIFETIME_SECS: u32 = 366 * 24 * 3600;

/// Create tokens for clients and agents.
///
/// A signed token expires by itself and needs no list on the server; a static token is a line in the server's token file and
/// works until the line is removed.
#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(after_long_help = "\
Examples:
  aaep token new --key signer.pem --subject ada
  aaep token new --key signer.pem --subject bank --role produce --users '*'
  aaep token static --subject kitchen")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    /// Print a signed token (JWT) that expires
    ///
    /// The server checks it with the public keys that it reads with --jwks.
    #[command(
        after_long_help = "Examples:\n  aaep token new --key signer.pem --subject ada --role subscribe,reply --expires 7d"
    )]
    New(NewTokenArgs),
    /// Print a random token, and on stderr the line for the token file of the server
    ///
    /// The line has a digest of the token, not the token itself.
    #[command(after_long_help = "Examples:\n  aaep token static --subject kitchen > token.txt 2>> tokens")]
    Static(StaticTokenArgs),
}

#[derive(clap::Args)]
struct NewTokenArgs {
    /// Private key file, see: aaep keys new
    #[arg(long)]
    key: PathBuf,
    /// Subject (sub): the principal that the token stands for
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    subject: String,
    /// Comma-separated roles: subscribe, reply, audit, admin, produce
    #[arg(long, default_value = "subscribe,reply", value_parser = Role::parse_list)]
    role: BTreeSet<Role>,
    /// Users to act for besides the subject: names separated by commas, each with the roles for that user if these are
    /// fewer, such as ada:subscribe+reply,ben; for an agent of all users *
    #[arg(long, value_name = "USERS")]
    users: Option<NamedUsers>,
    /// Audience (aud), as configured on the server
    #[arg(long, default_value = "aaep")]
    audience: String,
    /// Issuer (iss), as configured on the server
    #[arg(long, default_value = "aaep")]
    issuer: String,
    /// Lifetime, such as 30s, 15m, 1h or 7d
    #[arg(long, default_value = "1h", value_parser = parse_lifetime)]
    expires: u32,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct StaticTokenArgs {
    /// Subject: the principal that the token stands for; one word
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    subject: String,
    /// Comma-separated roles: subscribe, reply, audit, admin, produce
    #[arg(long, default_value = "subscribe,reply", value_parser = Role::parse_list)]
    role: BTreeSet<Role>,
    /// Users to act for besides the subject: names separated by commas, each with the roles for that user if these are
    /// fewer, such as ada:subscribe+reply,ben; for an agent of all users *
    #[arg(long, value_name = "USERS")]
    users: Option<NamedUsers>,
    /// Print the token and the line as a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_name(text: &str) -> Result<String, String> {
    let problem = "must have 1 to 256 characters, no control characters, and not be `local` or begin with `cert:`";
    if Identity::is_name(text) { Ok(text.to_owned()) } else { Err(problem.to_owned()) }
}

/// Parses `90s`, `15m`, `1h` or `7d` into seconds.
fn parse_lifetime(text: &str) -> Result<u32, String> {
    let form = || "give a number and s, m, h or d, such as 1h".to_owned();
    let (place, unit) = text.char_indices().next_back().ok_or_else(form)?;
    let scale = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return Err(form()),
    };
    let number: u32 = text[..place].parse().map_err(|_| form())?;
    match number.checked_mul(scale) {
        Some(0) => Err("must be at least 1s".to_owned()),
        Some(seconds) if seconds <= MAX_LIFETIME_SECS => Ok(seconds),
        _ => Err("must be at most 366d".to_owned()),
    }
}

pub(crate) fn run(args: &TokenArgs) -> io::Result<CommandStatus> {
    match &args.command {
        TokenCommand::New(args) => new(args),
        TokenCommand::Static(args) => new_static(args),
    }
}

fn new(args: &NewTokenArgs) -> io::Result<CommandStatus> {
    let key = match SigningKey::load(&args.key) {
        Ok(key) => key,
        Err(error) => return Ok(fail_at(&args.key, error)),
    };
    let issued_at = system_time();
    let token = NewToken {
        subject: args.subject.clone(),
        issuer: args.issuer.clone(),
        audience: args.audience.clone(),
        roles: args.role.clone(),
        users: args.users.clone().unwrap_or_default(),
        issued_at,
        lifetime_seconds: args.expires,
    };
    let text = match token.sign(&key) {
        Ok(text) => text,
        Err(error) => return Ok(fail_at(&args.key, error)),
    };
    let mut out = io::stdout().lock();
    if args.json {
        let ends = issued_at.millis().div_euclid(1000).saturating_add(i64::from(args.expires));
        let expires_at = Timestamp::from_millis(ends.saturating_mul(1000)).to_string();
        writeln!(out, "{}", json!({"token": text, "kid": key.kid(), "expires_at": expires_at}))?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(CommandStatus::Yes)
}

fn new_static(args: &StaticTokenArgs) -> io::Result<CommandStatus> {
    let token = match StaticToken::generate() {
        Ok(token) => token,
        Err(error) => return Ok(fail(format_args!("a new token {error}"))),
    };
    let line = token.line(&args.subject, &args.role, &args.users.clone().unwrap_or_default());
    // A line that the server would refuse is not printed.
    if StaticTokens::parse(&line).is_err() {
        return Ok(fail("--subject must be one word; use letters, digits and hyphens"));
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({"token": token.secret(), "line": line}))?;
    } else {
        writeln!(out, "{}", token.secret())?;
        // The comment and the line can be appended to the file as they are.
        let _ = writeln!(io::stderr(), "# Add the next line to the server's token file.\n{line}");
    }
    Ok(CommandStatus::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_units_and_bounds() {
        for (text, expected) in [("30s", 30), ("15m", 900), ("1h", 3600), ("7d", 604_800), ("366d", MAX_LIFETIME_SECS)]
        {
            assert_eq!(parse_lifetime(text), Ok(expected));
        }
        for text in ["", "1", "h", "-1h", "1.5h", "1 h", "1w", "1\u{e9}", "0s", "367d", "4294967295d"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }
}
