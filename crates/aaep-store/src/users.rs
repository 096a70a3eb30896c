//! The users whose records a store has. Every row names its user by a number.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::checksum;

/// The number of the user of a producer without users. Rows of a store from before there were users have it.
pub(crate) const LOCAL: i64 = 1;

/// The name of that user.
const LOCAL_NAME: &str = "local";

/// The tables that have a column with the number of a user.
pub(crate) const TABLES: [&str; 6] = ["log", "sent", "sessions", "questions", "subscriptions", "heard"];

/// Returns the statements that add users to the tables of a store without them. Adding a column writes no row.
pub(crate) fn add_to_schema() -> String {
    let columns = TABLES.map(|table| format!("ALTER TABLE {table} ADD COLUMN user INTEGER NOT NULL DEFAULT {LOCAL};"));
    columns.concat()
        + &format!(
            "CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
             INSERT INTO users VALUES({LOCAL}, '{LOCAL_NAME}');
             CREATE INDEX log_of_user ON log(user, seq) WHERE user <> {LOCAL};
             CREATE INDEX sessions_of_user ON sessions(user);
             CREATE INDEX questions_of_user ON questions(user, decided_at);
             CREATE INDEX subscriptions_of_user ON subscriptions(user);"
        )
}

/// Returns the checksum of a row of a user. Rows of the local user have the checksum that they had before there were users.
pub(crate) fn checksum_of(user: i64, numbers: &[i64], texts: &[&str]) -> i64 {
    if user == LOCAL {
        return checksum::row(numbers, texts);
    }
    let numbers: Vec<i64> = numbers.iter().copied().chain([user]).collect();
    checksum::row(&numbers, texts)
}

/// The numbers of all users.
#[derive(Debug)]
pub(crate) struct UserNumbers {
    numbers: BTreeMap<String, i64>,
    names: BTreeMap<i64, String>,
    last: i64,
    /// Users whose row is not written yet.
    new: Vec<(i64, String)>,
}

impl Default for UserNumbers {
    fn default() -> UserNumbers {
        let (numbers, names) = (BTreeMap::new(), BTreeMap::new());
        let mut users = UserNumbers { numbers, names, last: LOCAL, new: Vec::new() };
        users.insert(LOCAL, LOCAL_NAME);
        users
    }
}

impl UserNumbers {
    pub(crate) fn read(from: &Connection) -> rusqlite::Result<UserNumbers> {
        let mut users = UserNumbers::default();
        let mut select = from.prepare("SELECT id, name FROM users")?;
        for row in select.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))? {
            let (id, name) = row?;
            users.insert(id, &name);
        }
        Ok(users)
    }

    fn insert(&mut self, number: i64, name: &str) {
        self.last = self.last.max(number);
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
    }

    /// Returns the number of a user. A new user gets the next one.
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.last + 1;
        self.insert(number, name);
        self.new.push((number, name.to_owned()));
        number
    }

    /// Returns the number of a user, or `None` if there is no such user.
    pub(crate) fn find(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    /// Returns the users whose row is not written yet.
    pub(crate) fn take_new(&mut self) -> Vec<(i64, String)> {
        std::mem::take(&mut self.new)
    }

    /// Returns the name of a user.
    pub(crate) fn name(&self, number: i64) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }
}

/// Writes the rows of users.
pub(crate) fn write(to: &Connection, new: &[(i64, String)]) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached("INSERT OR IGNORE INTO users VALUES(?, ?)")?;
    new.iter().try_for_each(|(id, name)| insert.execute(params![id, name]).map(drop))
}

/// Deletes everything of a user but its row, which keeps the number from being used again. Returns how many rows there were.
pub(crate) fn delete(to: &Connection, user: i64) -> rusqlite::Result<usize> {
    to.execute("DELETE FROM calls WHERE token IN (SELECT token FROM questions WHERE user = ?)", [user])?;
    TABLES
        .iter()
        .try_fold(0, |deleted, table| Ok(deleted + to.execute(&format!("DELETE FROM {table} WHERE user = ?"), [user])?))
}
