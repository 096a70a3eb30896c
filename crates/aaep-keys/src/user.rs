//! Users: whom sessions and subscriptions belong to, and which users credentials are for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::identity::{MAX_PRINCIPAL_CHARACTERS, ParseRoleError, Role};

/// The most users that one token may name. A service for more of them has `*`.
pub const MAX_NAMED_USERS: usize = 256;

/// The id of a user: the person whom a session or a subscription belongs to. It is the principal of the user's own
/// credentials. Clones share the text.
///
/// ```
/// use aaep_keys::UserId;
/// let ada: UserId = "ada".parse()?;
/// assert_eq!(ada.as_str(), "ada");
/// assert!("".parse::<UserId>().is_err() && "a\nb".parse::<UserId>().is_err());
/// # Ok::<(), aaep_keys::ParseUserIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(Arc<str>);

/// A text that is not the id of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseUserIdError;

impl fmt::Display for ParseUserIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a user id has 1 to {MAX_PRINCIPAL_CHARACTERS} characters, no control characters, and is not *")
    }
}

impl std::error::Error for ParseUserIdError {}

impl UserId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the user that a `requested_by` of `session.started` names: `user:ID`. Returns `None` if it names something
    /// else, such as a process.
    ///
    /// ```
    /// use aaep_keys::UserId;
    /// assert_eq!(UserId::from_requested_by("user:ada").expect("a user").as_str(), "ada");
    /// assert_eq!(UserId::from_requested_by("cron"), None);
    /// ```
    pub fn from_requested_by(requested_by: &str) -> Option<UserId> {
        requested_by.strip_prefix("user:")?.parse().ok()
    }
}

impl FromStr for UserId {
    type Err = ParseUserIdError;

    fn from_str(text: &str) -> Result<UserId, ParseUserIdError> {
        let valid = !text.trim().is_empty()
            && text != "*"
            && text.chars().count() <= MAX_PRINCIPAL_CHARACTERS
            && !text.chars().any(char::is_control);
        if valid { Ok(UserId(text.into())) } else { Err(ParseUserIdError) }
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The users that credentials name besides their own subject: the claim `users` of a signed token, or the fourth word of
/// a line in a token file.
///
/// Written as `*`, or as names that are separated by commas. A name may be followed by a colon and the roles that the
/// credentials have for that user, joined by `+`; without them they have all their roles.
///
/// ```
/// use aaep_keys::{NamedUsers, Role};
/// let users: NamedUsers = "ada:subscribe,ben".parse()?;
/// let NamedUsers::Listed(listed) = &users else { unreachable!() };
/// assert_eq!(listed[&"ada".parse()?], Some([Role::Subscribe].into()));
/// assert_eq!(users.to_string(), "ada:subscribe,ben");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedUsers {
    /// None: the credentials are for their subject only.
    #[default]
    Nobody,
    /// These users, each with the roles that the credentials have for that user, or `None` for all of their roles.
    Listed(BTreeMap<UserId, Option<BTreeSet<Role>>>),
    /// Every user. For agents only: it permits to produce, not to subscribe or to reply.
    Everybody,
}

/// Why a list of users is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseUsersError {
    /// A name is not the id of a user.
    User(ParseUserIdError),
    /// There is no such role.
    Role(ParseRoleError),
    /// A user is named twice.
    Duplicate(UserId),
    /// There are none, or more than [`MAX_NAMED_USERS`].
    Count,
}

impl fmt::Display for ParseUsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseUsersError::User(error) => error.fmt(f),
            ParseUsersError::Role(error) => error.fmt(f),
            ParseUsersError::Duplicate(user) => write!(f, "the user {user} is named twice"),
            ParseUsersError::Count => write!(f, "name 1 to {MAX_NAMED_USERS} users, or * for an agent of all users"),
        }
    }
}

impl std::error::Error for ParseUsersError {}

impl NamedUsers {
    /// Returns the users of a list, each with its roles, or `None` for all roles of the credentials.
    pub fn listed(
        users: impl IntoIterator<Item = (UserId, Option<BTreeSet<Role>>)>,
    ) -> Result<NamedUsers, ParseUsersError> {
        let mut listed = BTreeMap::new();
        for (user, roles) in users {
            if listed.insert(user.clone(), roles).is_some() {
                return Err(ParseUsersError::Duplicate(user));
            }
        }
        if listed.is_empty() || listed.len() > MAX_NAMED_USERS {
            return Err(ParseUsersError::Count);
        }
        Ok(NamedUsers::Listed(listed))
    }
}

impl FromStr for NamedUsers {
    type Err = ParseUsersError;

    fn from_str(text: &str) -> Result<NamedUsers, ParseUsersError> {
        if text == "*" {
            return Ok(NamedUsers::Everybody);
        }
        let parse = |entry: &str| {
            let (name, roles) = match entry.rsplit_once(':') {
                Some((name, roles)) => (name, Some(roles)),
                None => (entry, None),
            };
            let user = name.trim().parse().map_err(ParseUsersError::User)?;
            let roles = roles.map(|roles| roles.split('+').map(|role| role.trim().parse()).collect::<Result<_, _>>());
            Ok((user, roles.transpose().map_err(ParseUsersError::Role)?))
        };
        NamedUsers::listed(text.split(',').map(parse).collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Display for NamedUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = match self {
            NamedUsers::Nobody => return Ok(()),
            NamedUsers::Everybody => return f.write_str("*"),
            NamedUsers::Listed(listed) => listed,
        };
        for (index, (user, roles)) in listed.iter().enumerate() {
            write!(f, "{}{user}", if index == 0 { "" } else { "," })?;
            for (index, role) in roles.iter().flatten().enumerate() {
                write!(f, "{}{role}", if index == 0 { ":" } else { "+" })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_users_are_parsed_and_printed() {
        for text in ["*", "ada", "ada,ben:subscribe", "ada:subscribe+reply,ben:produce"] {
            assert_eq!(text.parse::<NamedUsers>().unwrap().to_string(), text);
        }
        for text in ["", ",", "ada,", "ada,ada", "ada:none", "ada:", "a\u{1}b", "*,ada"] {
            assert!(text.parse::<NamedUsers>().is_err(), "{text:?}");
        }
        let many: Vec<String> = (0..=MAX_NAMED_USERS).map(|n| format!("u{n}")).collect();
        assert_eq!(many.join(",").parse::<NamedUsers>(), Err(ParseUsersError::Count));
        assert!(many[1..].join(",").parse::<NamedUsers>().is_ok());
    }

    #[test]
    fn only_a_user_is_read_from_requested_by() {
        assert_eq!(UserId::from_requested_by("user:folake").unwrap().as_str(), "folake");
        for other in ["folake", "User:folake", "user:", "user:*", "user:a\nb", "system:cron"] {
            assert_eq!(UserId::from_requested_by(other), None, "{other:?}");
        }
    }
}
