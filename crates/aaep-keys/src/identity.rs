//! Principals and their roles.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use aaep_proto::time::Timestamp;

use crate::user::{NamedUsers, UserId};

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

/// An authenticated principal, its roles and the users that it may act for.
///
/// ```
/// use aaep_keys::{Identity, Role};
/// let carer = Identity::new("carol", [Role::Subscribe, Role::Reply]).with_users("ada:subscribe".parse()?);
/// let (carol, ada, ben) = ("carol".parse()?, "ada".parse()?, "ben".parse()?);
/// assert!(carer.may_for(Role::Reply, &carol), "the subject is a user too");
/// assert!(carer.may_for(Role::Subscribe, &ada) && !carer.may_for(Role::Reply, &ada));
/// assert!(!carer.may_for(Role::Subscribe, &ben));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The name of the principal.
    pub principal: String,
    /// Its roles.
    pub roles: BTreeSet<Role>,
    /// The users that the credentials name besides the principal.
    pub users: NamedUsers,
    /// When connections that were opened with the credentials must end, if the credentials expire.
    pub expires: Option<Timestamp>,
}

impl Identity {
    /// The principal of peers without credentials: everyone who can reach a server that requires none, and the user of its
    /// local socket.
    pub const LOCAL: &str = "local";

    /// The prefix of the principals of client certificates.
    pub const CERTIFICATE: &str = "cert:";

    /// Creates the identity of a principal that acts for no other user and does not expire.
    pub fn new(principal: impl Into<String>, roles: impl Into<BTreeSet<Role>>) -> Identity {
        Identity { principal: principal.into(), roles: roles.into(), users: NamedUsers::Nobody, expires: None }
    }

    /// Sets the users that the credentials name.
    #[must_use]
    pub fn with_users(mut self, users: NamedUsers) -> Identity {
        self.users = users;
        self
    }

    /// Returns whether the principal has a role.
    pub fn may(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Returns the user that the principal is, or `None` if its name cannot be that of a user.
    pub fn own_user(&self) -> Option<UserId> {
        self.principal.parse().ok()
    }

    /// Returns whether the principal has a role for a user.
    ///
    /// Everybody subscribes and replies as themselves, and for users that their credentials list with that role. An agent
    /// produces for the users that its credentials name; if they name none, for its own principal.
    pub fn may_for(&self, role: Role, user: &UserId) -> bool {
        let is_own = self.principal == user.as_str();
        let is_named = match &self.users {
            NamedUsers::Nobody => role == Role::Produce && is_own,
            NamedUsers::Everybody => role == Role::Produce,
            NamedUsers::Listed(listed) => {
                listed.get(user).is_some_and(|roles| roles.as_ref().is_none_or(|roles| roles.contains(&role)))
            }
        };
        self.may(role) && (is_named || (is_own && role != Role::Produce))
    }

    /// Returns the users for whom the principal may do something, without those of [`NamedUsers::Everybody`]: first its own,
    /// then the listed ones.
    pub fn known_users(&self) -> impl Iterator<Item = UserId> + '_ {
        let listed = match &self.users {
            NamedUsers::Listed(listed) => Some(listed.keys().cloned()),
            NamedUsers::Nobody | NamedUsers::Everybody => None,
        };
        let own = self.own_user();
        let others = listed.into_iter().flatten().filter(|user| user.as_str() != self.principal);
        own.into_iter().chain(others)
    }

    /// Returns the user of an agent's session that names none: the only one that it may produce for. Returns `None` if there
    /// are several, or none.
    pub fn only_produced_user(&self) -> Option<UserId> {
        let mut users = self.known_users().filter(|user| self.may_for(Role::Produce, user));
        let only = users.next().filter(|_| self.users != NamedUsers::Everybody)?;
        if users.next().is_some() { None } else { Some(only) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    const ALL: [Role; 5] = Role::ALL;

    #[test]
    fn without_named_users_everything_is_for_the_principal() {
        let ada = Identity::new("ada", ALL);
        for role in ALL {
            assert!(ada.may_for(role, &user("ada")) && !ada.may_for(role, &user("ben")), "{role}");
        }
        assert_eq!(ada.only_produced_user(), Some(user("ada")));
    }

    #[test]
    fn everybody_is_for_agents_alone() {
        let service = Identity::new("service", ALL).with_users(NamedUsers::Everybody);
        assert!(service.may_for(Role::Produce, &user("ada")) && service.may_for(Role::Produce, &user("service")));
        for role in [Role::Subscribe, Role::Reply, Role::Audit, Role::Admin] {
            assert!(!service.may_for(role, &user("ada")), "{role}");
            assert!(service.may_for(role, &user("service")), "{role}");
        }
        assert_eq!(service.only_produced_user(), None);
    }

    #[test]
    fn listed_users_have_their_roles_and_no_others() {
        let users = "ada:subscribe,ben:produce".parse().unwrap();
        let carol = Identity::new("carol", [Role::Subscribe, Role::Reply, Role::Produce]).with_users(users);
        assert!(carol.may_for(Role::Subscribe, &user("ada")));
        assert!(!carol.may_for(Role::Reply, &user("ada")) && !carol.may_for(Role::Produce, &user("ada")));
        assert!(carol.may_for(Role::Produce, &user("ben")) && !carol.may_for(Role::Subscribe, &user("ben")));
        assert!(carol.may_for(Role::Reply, &user("carol")));
        assert!(!carol.may_for(Role::Produce, &user("carol")), "an agent that names users acts for these");
        assert_eq!(carol.only_produced_user(), Some(user("ben")));
        let known: Vec<UserId> = carol.known_users().collect();
        assert_eq!(known, [user("carol"), user("ada"), user("ben")]);
    }

    #[test]
    fn role_for_a_user_needs_the_role_itself() {
        let agent = Identity::new("agent", [Role::Produce]).with_users("ada:subscribe+produce,ben".parse().unwrap());
        assert!(!agent.may_for(Role::Subscribe, &user("ada")));
        assert!(agent.may_for(Role::Produce, &user("ada")) && agent.may_for(Role::Produce, &user("ben")));
        assert_eq!(agent.only_produced_user(), None);
    }
}
