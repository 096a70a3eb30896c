//! Principals and their roles.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use aaep_proto::time::Timestamp;

/// The longest name of a principal, in characters.
pub(crate) const MAX_PRINCIPAL_CHARACTERS: usize = 256;

/// What a principal may do. Roles do not include each other: an admin who subscribes needs `subscribe` too.
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
        write!(f, "unknown role {:?}; use subscribe, reply, audit, admin or produce", self.0)
    }
}

impl std::error::Error for ParseRoleError {}

impl Role {
    /// All roles.
    pub const ALL: [Role; 5] = [Role::Subscribe, Role::Reply, Role::Audit, Role::Admin, Role::Produce];

    /// Returns the name in tokens and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Subscribe => "subscribe",
            Role::Reply => "reply",
            Role::Audit => "audit",
            Role::Admin => "admin",
            Role::Produce => "produce",
        }
    }

    /// Parses roles that are separated by commas; at least one.
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

/// An authenticated principal and its roles.
///
/// ```
/// use aaep_keys::{Identity, Role};
/// let reader = Identity { principal: "reader".into(), roles: [Role::Subscribe].into(), expires: None };
/// assert!(reader.may(Role::Subscribe) && !reader.may(Role::Reply));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The name of the principal.
    pub principal: String,
    /// Its roles.
    pub roles: BTreeSet<Role>,
    /// When connections that were opened with the credentials must end, if the credentials expire.
    pub expires: Option<Timestamp>,
}

impl Identity {
    /// The principal of peers without credentials: everyone who can reach a server that requires none, and the user of its
    /// local socket.
    pub const LOCAL: &str = "local";

    /// The prefix of the principals of client certificates.
    pub const CERTIFICATE: &str = "cert:";

    /// Returns whether the principal has a role.
    pub fn may(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Returns whether a text may be the principal of a token: not empty, not too long, without control characters, and not
    /// a name that is reserved for peers with other credentials or none.
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
            && text.chars().count() <= MAX_PRINCIPAL_CHARACTERS
            && !text.chars().any(char::is_control)
    }
}
