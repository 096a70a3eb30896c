//! Who someone is and what they may do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Most characters in the name of a principal.
pub(crate) const PRINCIPAL_CHARACTERS: usize = 256;

/// What someone may do. A role gives nothing but what it names: an admin who is to listen needs `subscribe` too.
///
/// ```
/// use aaep_keys::Role;
/// assert_eq!("reply".parse(), Ok(Role::Reply));
/// assert_eq!(Role::parse_list("subscribe,reply")?.len(), 2);
/// # Ok::<(), aaep_keys::UnknownRole>(())
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
pub struct UnknownRole(pub String);

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no role; use subscribe, reply, audit, admin or produce", self.0)
    }
}

impl std::error::Error for UnknownRole {}

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
    pub fn parse_list(text: &str) -> Result<BTreeSet<Role>, UnknownRole> {
        text.split(',').map(|name| name.trim().parse()).collect()
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        let role = Role::ALL.into_iter().find(|r| r.as_str() == text);
        role.ok_or_else(|| UnknownRole(text.chars().take(64).collect()))
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
/// let reader = Identity { principal: "reader".into(), roles: [Role::Subscribe].into() };
/// assert!(reader.may(Role::Subscribe) && !reader.may(Role::Reply));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Their name.
    pub principal: String,
    /// What they may do.
    pub roles: BTreeSet<Role>,
}

impl Identity {
    /// Whether they have a role.
    pub fn may(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether a text can be the name of someone and stand in a log line: not empty, not endless, nothing that moves
    /// a cursor.
    ///
    /// ```
    /// assert!(aaep_keys::Identity::is_name("reader-7"));
    /// assert!(!aaep_keys::Identity::is_name("reader\n7"));
    /// ```
    pub fn is_name(text: &str) -> bool {
        !text.trim().is_empty() && text.chars().count() <= PRINCIPAL_CHARACTERS && !text.chars().any(char::is_control)
    }
}
