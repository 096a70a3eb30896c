//! Who someone is and what they may do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use aaep_proto::time::Timestamp;

/// Most characters in the name of a principal.
pub(crate) const PRINCIPAL_CHARACTERS: usize = 256;

/// What someone may do. A role gives nothing but what it names: an admin who is to listen needs `subscribe` too.
///
/// ```
/// use aaep_keys::Role;
/// assert_eq!("reply".parse(), Ok(Role::Reply));
/// assert_eq!(Role::parse_list("subscribe,reply")?.len(), 2);
/// # Ok::<(), aaep_keys::ParseRoleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Receive events.
    Subscribe,
    /// Answer questions.
    Reply,
    /// Read everything, answer nothing.
    Audit,
    /// Run the server.
    Admin,
    /// Publish events: an agent.
    Produce,
}

/// The name of a role that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRoleError(pub String);

impl fmt::Display for ParseRoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no role; use subscribe, reply, audit, admin or produce", self.0)
    }
}

impl std::error::Error for ParseRoleError {}

impl Role {
    /// All of them.
    pub const ALL: [Role; 5] = [Role::Subscribe, Role::Reply, Role::Audit, Role::Admin, Role::Produce];

    /// The name in tokens and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Subscribe => "subscribe",
            Role::Reply => "reply",
            Role::Audit => "audit",
            Role::Admin => "admin",
            Role::Produce => "produce",
        }
    }

    /// Reads roles separated by commas; at least one.
    pub fn parse_list(text: &str) -> Result<BTreeSet<Role>, ParseRoleError> {
        text.split(',').map(|name| name.trim().parse()).collect()
    }
}

impl FromStr for Role {
    type Err = ParseRoleError;

    fn from_str(text: &str) -> Result<Role, ParseRoleError> {
        let role = Role::ALL.into_iter().find(|r| r.as_str() == text);
        role.ok_or_else(|| ParseRoleError(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Someone who has shown who they are.
///
/// ```
/// use aaep_keys::{Identity, Role};
/// let reader = Identity { principal: "reader".into(), roles: [Role::Subscribe].into(), expires: None };
/// assert!(reader.may(Role::Subscribe) && !reader.may(Role::Reply));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Their name.
    pub principal: String,
    /// What they may do.
    pub roles: BTreeSet<Role>,
    /// When what was opened with these credentials ends, if they expire.
    pub expires: Option<Timestamp>,
}

impl Identity {
    /// The principal of whoever needs no credentials: everyone who can reach a server that asks for none, and the user of
    /// its local socket.
    pub const LOCAL: &str = "local";

    /// What the principals of client certificates begin with.
    pub const CERTIFICATE: &str = "cert:";

    /// Whether they have a role.
    pub fn may(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether a text can be the name of someone with a token, and stand in a log line: not empty, not endless, nothing
    /// that moves a cursor, and not the name of someone who shows something else than a token.
    ///
    /// ```
    /// assert!(aaep_keys::Identity::is_name("reader-7"));
    /// assert!(!aaep_keys::Identity::is_name("reader\n7"));
    /// assert!(!aaep_keys::Identity::is_name("local") && !aaep_keys::Identity::is_name("cert:00ff"));
    /// ```
    pub fn is_name(text: &str) -> bool {
        let start = text.trim().to_lowercase();
        let reserved = start == Identity::LOCAL || start.starts_with(Identity::CERTIFICATE);
        !reserved
            && !start.is_empty()
            && text.chars().count() <= PRINCIPAL_CHARACTERS
            && !text.chars().any(char::is_control)
    }
}
