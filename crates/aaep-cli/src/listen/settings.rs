//! The user's settings: the profile file, the directories, the time of day.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aaep_announce::{Profile, TimeOfDay};

/// Reads the profile from this file, or from the default one. Returns the default profile if no file was named and the
/// default one is missing.
pub(crate) fn profile(named: Option<&Path>) -> Result<Profile, String> {
    let default = || config_directory().map(|directory| directory.join("profile.toml"));
    let Some(path) = named.map(Path::to_path_buf).or_else(default) else { return Ok(Profile::default()) };
    match std::fs::read_to_string(&path) {
        // Only the message: the drawing around it is nothing to listen to.
        Ok(text) => {
            toml::from_str(&text).map_err(|error| format!("the profile {}: {}", path.display(), error.message()))
        }
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(Profile::default()),
        Err(error) => Err(format!("the profile {} cannot be read: {error}", path.display())),
    }
}

/// Returns the directory of this user's settings.
pub(crate) fn config_directory() -> Option<PathBuf> {
    directory(&environment, "XDG_CONFIG_HOME", HOMES[0])
}

/// Returns the directory where programs of this user keep their state.
pub(crate) fn state_directory() -> Option<PathBuf> {
    directory(&environment, "XDG_STATE_HOME", HOMES[1])
}

/// A variable that names a directory of the user, and the path below it.
type Below = (&'static str, &'static str);

/// Where settings and state of this user are, unless a variable says otherwise.
const HOMES: [Below; 2] = if cfg!(windows) {
    [("APPDATA", "aaep"), ("LOCALAPPDATA", "aaep")]
} else if cfg!(target_os = "macos") {
    [("HOME", "Library/Application Support/AAEP"), ("HOME", "Library/Application Support/AAEP")]
} else {
    [("HOME", ".config/aaep"), ("HOME", ".local/state/aaep")]
};

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn directory(value: &dyn Fn(&str) -> Option<OsString>, variable: &str, (base, path): Below) -> Option<PathBuf> {
    let absolute = |name: &str| value(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).map(|set| set.join("aaep")).or_else(|| absolute(base).map(|base| base.join(path)))
}

/// Returns whether it is now within the quiet hours of the user, in local time.
pub(crate) fn is_quiet_now(profile: &Profile) -> bool {
    profile.quiet_hours.is_some() && is_quiet_at(profile, jiff::Zoned::now().time())
}

fn is_quiet_at(profile: &Profile, time: jiff::civil::Time) -> bool {
    let time = format!("{:02}:{:02}", time.hour(), time.minute()).parse::<TimeOfDay>();
    time.is_ok_and(|time| profile.is_quiet_at(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aaep_announce::QuietHours;
    use jiff::civil::time;

    fn quiet(from: &str, to: &str) -> Profile {
        let quiet_hours = QuietHours { from: from.parse().unwrap(), to: to.parse().unwrap() };
        Profile { quiet_hours: Some(quiet_hours), ..Profile::default() }
    }

    #[test]
    fn named_profile_must_exist_and_be_valid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.toml");
        assert!(profile(Some(&path)).unwrap_err().contains("cannot be read"));
        std::fs::write(&path, "pace_wpm = 3").unwrap();
        assert!(profile(Some(&path)).unwrap_err().contains("pace_wpm is 50"));
        std::fs::write(&path, "pace_wpm = 300\nlanguages = [\"de\"]").unwrap();
        assert_eq!(profile(Some(&path)).unwrap().pace_wpm, 300);
    }

    #[test]
    fn directories_follow_their_variables_and_ignore_relative_ones() {
        let root = std::env::temp_dir();
        let below = ("HOME", "Library/Application Support/AAEP");
        let only_home = |name: &str| (name == "HOME").then(|| root.clone().into_os_string());
        let found = directory(&only_home, "XDG_CONFIG_HOME", below);
        assert_eq!(found, Some(root.join("Library/Application Support/AAEP")));
        let both = |name: &str| Some(root.join(name).into_os_string());
        assert_eq!(directory(&both, "XDG_CONFIG_HOME", below), Some(root.join("XDG_CONFIG_HOME/aaep")));
        assert_eq!(directory(&|_| Some("relative".into()), "XDG_CONFIG_HOME", below), None);
    }

    #[test]
    fn quiet_hours_include_their_start_and_not_their_end_also_over_midnight() {
        for (from, to, at, expected) in [
            ("22:00", "07:00", time(21, 59, 59, 0), false),
            ("22:00", "07:00", time(22, 0, 0, 0), true),
            ("22:00", "07:00", time(0, 0, 0, 0), true),
            ("22:00", "07:00", time(6, 59, 59, 0), true),
            ("22:00", "07:00", time(7, 0, 0, 0), false),
            ("09:05", "17:30", time(9, 5, 0, 0), true),
            ("09:05", "17:30", time(3, 0, 0, 0), false),
            ("10:00", "10:00", time(10, 0, 0, 0), false),
        ] {
            assert_eq!(is_quiet_at(&quiet(from, to), at), expected, "{from} to {to} at {at}");
        }
    }

    #[test]
    fn quiet_hours_follow_the_current_time() {
        assert!(!is_quiet_now(&Profile::default()), "without quiet hours it is never quiet");
        // It is one half of the day or the other, also if midnight passes in between.
        let halves = [quiet("00:00", "12:00"), quiet("12:00", "00:00"), quiet("00:00", "12:00")];
        assert!(halves.iter().any(is_quiet_now));
    }
}
