//! Decisions of the user that later runs of a bridge apply, in a file that only the user can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_bridge::rules::ConsentRule;

/// Returns the file of remembered decisions, or `None` without a home directory.
pub(crate) fn default_path() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
    state.map(|state| state.join("aaep/remembered.json"))
}

/// Reads the rules of a file. A file that does not exist has none.
pub(crate) fn load(file: &Path) -> Result<Vec<ConsentRule>, String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    let hint = "correct it or delete it";
    serde_json::from_str(&text).map_err(|error| format!("{} is not valid: {error} ({hint})", file.display()))
}

/// Adds a rule to a file. Several processes may do so at once.
pub(crate) fn add(file: &Path, rule: ConsentRule) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let lock = File::create(file.with_extension("lock"))?;
    lock.lock()?;
    let mut rules = load(file).map_err(io::Error::other)?;
    rules.retain(|kept| *kept != rule);
    rules.push(rule);
    let text = serde_json::to_string_pretty(&rules).map_err(io::Error::other)?;
    let part = file.with_extension("part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options.open(&part)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&part, file)
}

#[cfg(test)]
mod tests {
    use aaep_bridge::rules::RuleDecision;

    use super::*;

    #[test]
    fn rules_of_several_writers_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("deep/remembered.json");
        assert_eq!(load(&file), Ok(Vec::new()));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    add(file, ConsentRule::for_tool(format!("t{number}"), RuleDecision::Allow)).unwrap()
                });
            }
        });
        let mut tools: Vec<String> = load(&file).unwrap().into_iter().map(|rule| rule.tool).collect();
        tools.sort();
        assert_eq!(tools, (0..8).map(|number| format!("t{number}")).collect::<Vec<_>>());
        fs::write(&file, "[{]").unwrap();
        assert!(load(&file).unwrap_err().contains("delete it"));
    }
}
