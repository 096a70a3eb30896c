//! Static tokens from a file, for small installations: `TOKEN PRINCIPAL ROLE,ROLE` on each line, and optionally the users
//! that the principal may act for: `users=ada,ben:subscribe` or `users=*` (see [`NamedUsers`]).
//!
//! The file has the hash of a token, as `sha256:` and 64 hex digits or the digits alone, or the token itself. In memory
//! tokens are kept as hashes only. They are found by their hash, so the time that it takes says nothing about a token.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

use crate::{Identity, KeyError, KeyFileError, NamedUsers, ParseRoleError, ParseUsersError, Role, base64url, file};

/// The most tokens in a file. A larger installation issues signed tokens, which need no list.
pub const TOKENS: usize = 10_000;
/// The shortest token that may be in the file without a hash, in characters.
pub const PLAIN_CHARACTERS: usize = 16;
/// The longest token, in bytes.
const TOKEN_BYTES: usize = 1024;

type TokenHash = [u8; 32];

fn hash(token: &str) -> TokenHash {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Why a file of tokens cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be used, for instance because others may read it.
    File(KeyFileError),
    /// A line is not valid.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// It has more than [`TOKENS`] tokens.
    TooMany,
}

/// What is wrong with a line of a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineProblem {
    /// It does not have three words, or four of which the last begins with `users=`.
    Form,
    /// The token is too short to be secure, or too long.
    Token,
    /// `sha256:` without 64 hex digits.
    Hash,
    /// The same token as on an earlier line.
    Duplicate,
    /// The principal is not valid.
    Principal,
    /// There is no such role.
    Role(ParseRoleError),
    /// The users are not valid.
    Users(ParseUsersError),
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileError::File(error) => error.fmt(f),
            TokenFileError::Line { number, problem } => write!(f, "has a mistake on line {number}: {problem}"),
            TokenFileError::TooMany => write!(f, "holds more than {TOKENS} tokens; use signed tokens instead"),
        }
    }
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineProblem::Form => {
                f.write_str("write TOKEN PRINCIPAL ROLE,ROLE, separated by spaces; users=NAME,NAME may follow")
            }
            LineProblem::Token => write!(f, "a token has {PLAIN_CHARACTERS} to {TOKEN_BYTES} characters"),
            LineProblem::Hash => f.write_str("sha256: must be followed by 64 hex digits"),
            LineProblem::Duplicate => f.write_str("the same token is on an earlier line; remove one"),
            LineProblem::Principal => {
                f.write_str("the name is reserved (local, cert:), too long, or has control characters; use another")
            }
            LineProblem::Role(role) => role.fmt(f),
            LineProblem::Users(users) => users.fmt(f),
        }
    }
}

impl std::error::Error for TokenFileError {}

impl From<KeyFileError> for TokenFileError {
    fn from(error: KeyFileError) -> TokenFileError {
        TokenFileError::File(error)
    }
}

/// The tokens of a file.
///
/// ```
/// use aaep_keys::{Role, StaticToken, StaticTokens};
/// let new = StaticToken::generate()?;
/// let text = format!("# the reader in the kitchen\n{}\n", new.line("kitchen", &[Role::Subscribe].into(), &Default::default()));
/// let tokens = StaticTokens::parse(&text).expect("lines as they should be");
/// assert_eq!(tokens.find(new.secret()).expect("it is there").principal, "kitchen");
/// assert!(tokens.find("something else").is_none());
/// # Ok::<(), aaep_keys::KeyError>(())
/// ```
#[derive(Clone, Default)]
pub struct StaticTokens {
    entries: BTreeMap<TokenHash, Identity>,
}

impl StaticTokens {
    /// Parses lines. Blank lines and those that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<StaticTokens, TokenFileError> {
        let mut entries = BTreeMap::new();
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let at_line = |problem| TokenFileError::Line { number, problem };
            let (hash, identity) = parse_line(line).map_err(at_line)?;
            if entries.insert(hash, identity).is_some() {
                return Err(at_line(LineProblem::Duplicate));
            }
            if entries.len() > TOKENS {
                return Err(TokenFileError::TooMany);
            }
        }
        Ok(StaticTokens { entries })
    }

    /// Reads a file. It must not be open to other users.
    pub fn load(path: &Path) -> Result<StaticTokens, TokenFileError> {
        StaticTokens::parse(&file::read_secret(path)?)
    }

    /// Returns the identity of a token, or `None` if it is unknown. The time that it takes depends on how much of a hash
    /// matches, which tells nothing about the token.
    pub fn find(&self, token: &str) -> Option<&Identity> {
        if token.len() > TOKEN_BYTES { None } else { self.entries.get(&hash(token)) }
    }

    /// Returns the identities of all tokens.
    pub fn identities(&self) -> impl Iterator<Item = &Identity> {
        self.entries.values()
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Shows the identities, not even the hashes of the tokens.
impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.values()).finish()
    }
}

fn parse_line(line: &str) -> Result<(TokenHash, Identity), LineProblem> {
    let mut words = line.split_whitespace();
    let (Some(token), Some(principal), Some(roles)) = (words.next(), words.next(), words.next()) else {
        return Err(LineProblem::Form);
    };
    let users = match (words.next().map(|word| word.strip_prefix("users=")), words.next()) {
        (None, _) => NamedUsers::Nobody,
        (Some(Some(users)), None) => users.parse().map_err(LineProblem::Users)?,
        _ => return Err(LineProblem::Form),
    };
    let hash = match token.strip_prefix("sha256:") {
        Some(digits) => from_hex(digits).ok_or(LineProblem::Hash)?,
        None => match from_hex(token) {
            Some(hash) => hash,
            None if (PLAIN_CHARACTERS..=TOKEN_BYTES).contains(&token.len()) => hash(token),
            None => return Err(LineProblem::Token),
        },
    };
    if !Identity::is_name(principal) {
        return Err(LineProblem::Principal);
    }
    let roles = Role::parse_list(roles).map_err(LineProblem::Role)?;
    Ok((hash, Identity::new(principal, roles).with_users(users)))
}

fn from_hex(text: &str) -> Option<TokenHash> {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let mut hash = [0; 32];
    let bytes = text.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// A new static token. It is shown once; the file gets its hash.
pub struct StaticToken {
    secret: String,
}

impl StaticToken {
    /// Generates a token of 256 random bits.
    pub fn generate() -> Result<StaticToken, KeyError> {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| KeyError::Crypto)?;
        // The prefix lets tools that look for secrets in files find it.
        Ok(StaticToken { secret: format!("aaep_{}", base64url::encode(bytes)) })
    }

    /// Returns the token that the client sends.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the line for the file. The principal and the ids of the users must be one word each.
    pub fn line(&self, principal: &str, roles: &BTreeSet<Role>, users: &NamedUsers) -> String {
        let mut line = "sha256:".to_owned();
        for byte in hash(&self.secret) {
            write!(line, "{byte:02x}").expect("writing to a string does not fail");
        }
        let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        let users = if *users == NamedUsers::Nobody { String::new() } else { format!(" users={users}") };
        format!("{line} {principal} {}{users}", roles.join(","))
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticToken")
    }
}
