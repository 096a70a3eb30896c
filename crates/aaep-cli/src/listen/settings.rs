//! What the user's machine says: files, directories, the time of day.

use std::path::{Path, PathBuf};

use aaep_announce::{Profile, TimeOfDay};

/// The profile in this file, or in the usual one, or the default. A file that was named must be there.
pub(crate) fn profile(named: Option<&Path>) -> Result<Profile, String> {
    let usual = || config_directory().map(|directory| directory.join("profile.toml"));
    let Some(path) = named.map(Path::to_path_buf).or_else(usual) else { return Ok(Profile::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| format!("the profile {}: {}", path.display(), plain(&error))),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(Profile::default()),
        Err(error) => Err(format!("the profile {} cannot be read: {error}", path.display())),
    }
}

/// The error without the drawing around it, which is nothing to listen to.
fn plain(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

/// Where this user's settings are.
pub(crate) fn config_directory() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config")
}

/// Where this user's programs keep what they learned.
pub(crate) fn state_directory() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

fn directory(variable: &str, otherwise: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(otherwise)));
    base.map(|base| base.join("aaep"))
}

/// Whether the user wants to hear only what is critical at this time of their day.
pub(crate) fn is_quiet_now(profile: &Profile) -> bool {
    if profile.quiet_hours.is_none() {
        return false;
    }
    let now = jiff::Zoned::now();
    let at = format!("{:02}:{:02}", now.hour(), now.minute()).parse::<TimeOfDay>();
    at.is_ok_and(|at| profile.is_quiet_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_profile_must_be_there_and_be_right() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.toml");
        assert!(profile(Some(&path)).unwrap_err().contains("cannot be read"));
        std::fs::write(&path, "pace_wpm = 3").unwrap();
        assert!(profile(Some(&path)).unwrap_err().contains("pace_wpm is 50"));
        std::fs::write(&path, "pace_wpm = 300\nlanguages = [\"de\"]").unwrap();
        assert_eq!(profile(Some(&path)).unwrap().pace_wpm, 300);
    }

    #[test]
    fn quiet_hours_hold_all_day_or_never() {
        let mut profile = Profile::default();
        assert!(!is_quiet_now(&profile));
        let hours =
            |from: &str, to: &str| aaep_announce::QuietHours { from: from.parse().unwrap(), to: to.parse().unwrap() };
        profile.quiet_hours = Some(hours("10:00", "10:00"));
        assert!(!is_quiet_now(&profile));
    }
}
