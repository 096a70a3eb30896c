//! `aaep token`: makes the tokens that clients and agents show to a server.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use aaep_keys::{Identity, NewToken, Role, SigningKey, StaticToken, StaticTokens};
use aaep_proto::time::Timestamp;
use serde_json::json;

use crate::CommandStatus;
use crate::keys::give_up;
use crate::manifest::now;
use crate::output::complain;

/// Nobody should forget a token for longer than this.
const MOST_SECONDS: u32 = 366 * 24 * 3600;

#[derive(clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print a signed token (JWT) that ends by itself
    New(New),
    /// Print a random token, and the line for the server's token file on standard error
    Static(Static),
}

#[derive(clap::Args)]
struct New {
    /// The private key file, see: aaep keys new
    #[arg(long)]
    key: PathBuf,
    /// Whom it is about
    #[arg(long, value_parser = name)]
    subject: String,
    /// What they may do: subscribe, reply, audit, admin, produce; separated by commas
    #[arg(long, default_value = "subscribe,reply", value_parser = Role::parse_list)]
    role: BTreeSet<Role>,
    /// The server that it is for, as the server calls itself
    #[arg(long, default_value = "aaep")]
    audience: String,
    /// Who issues it, as the server expects it
    #[arg(long, default_value = "aaep")]
    issuer: String,
    /// How long it holds: 30s, 15m, 1h, 7d
    #[arg(long, default_value = "1h", value_parser = seconds)]
    expires: u32,
    /// A JSON object instead of the token alone
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Static {
    /// Whom it is about, in one word
    #[arg(long, value_parser = name)]
    principal: String,
    /// What they may do: subscribe, reply, audit, admin, produce; separated by commas
    #[arg(long, default_value = "subscribe,reply", value_parser = Role::parse_list)]
    role: BTreeSet<Role>,
    /// The token and the line in one JSON object
    #[arg(long)]
    json: bool,
}

fn name(text: &str) -> Result<String, String> {
    let problem = "a name has 1 to 256 characters, no control characters, and is not local or cert: and more";
    if Identity::is_name(text) { Ok(text.to_owned()) } else { Err(problem.to_owned()) }
}

/// `90s`, `15m`, `1h`, `7d` in seconds.
fn seconds(text: &str) -> Result<u32, String> {
    let form = || "write a number and s, m, h or d, for example 1h".to_owned();
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
        Some(0) => Err("it would have ended before anyone could use it".to_owned()),
        Some(seconds) if seconds <= MOST_SECONDS => Ok(seconds),
        _ => Err("the longest is 366d".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> io::Result<CommandStatus> {
    match &args.command {
        Command::New(args) => new(args),
        Command::Static(args) => fixed(args),
    }
}

fn new(args: &New) -> io::Result<CommandStatus> {
    let key = match SigningKey::load(&args.key) {
        Ok(key) => key,
        Err(fault) => return give_up(&args.key, fault),
    };
    let issued_at = now();
    let token = NewToken {
        subject: args.subject.clone(),
        issuer: args.issuer.clone(),
        audience: args.audience.clone(),
        roles: args.role.clone(),
        issued_at,
        lifetime_seconds: args.expires,
    };
    let text = match token.sign(&key) {
        Ok(text) => text,
        Err(fault) => return give_up(&args.key, fault),
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

fn fixed(args: &Static) -> io::Result<CommandStatus> {
    let token = match StaticToken::generate() {
        Ok(token) => token,
        Err(fault) => {
            complain(format_args!("a new token {fault}"));
            return Ok(CommandStatus::Failed);
        }
    };
    let line = token.line(&args.principal, &args.role);
    // Whatever the server would refuse is refused here.
    if StaticTokens::parse(&line).is_err() {
        complain("--principal must be one word; use letters, digits and hyphens");
        return Ok(CommandStatus::Failed);
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({"token": token.secret(), "line": line}))?;
    } else {
        writeln!(out, "{}", token.secret())?;
        // A comment and a line: this can be appended to the file as it is.
        let _ = writeln!(io::stderr(), "# Add the next line to the server's token file.\n{line}");
    }
    Ok(CommandStatus::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_bounds() {
        for (text, expected) in [("30s", 30), ("15m", 900), ("1h", 3600), ("7d", 604_800), ("366d", MOST_SECONDS)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for text in ["", "1", "h", "-1h", "1.5h", "1 h", "1w", "1\u{e9}", "0s", "367d", "4294967295d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
