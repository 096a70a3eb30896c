//! The user's settings: the profile file, the directories, the time of day.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aaep_announce::{Profile, TimeOfDay};
use aaep_proto::language::LanguageTag;

/// Reads the profile from this file, or from the default one. Returns the default profile if no file was named and the
/// default one is missing. A profile that names no languages has those of the locale.
pub(crate) fn profile(named: Option<&Path>) -> Result<Profile, String> {
    let (mut profile, names_languages) = read_profile(named)?;
    if !names_languages && let Some(languages) = locale_languages(|name| std::env::var(name).ok()) {
        profile.languages = languages;
    }
    Ok(profile)
}

/// Reads the profile, and returns whether it names languages.
fn read_profile(named: Option<&Path>) -> Result<(Profile, bool), String> {
    let default = || config_directory().map(|directory| directory.join("profile.toml"));
    let Some(path) = named.map(Path::to_path_buf).or_else(default) else { return Ok((Profile::default(), false)) };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            // Only the message: the drawing around it is nothing to listen to.
            let describe = |error: toml::de::Error| format!("the profile {}: {}", path.display(), error.message());
            let profile = toml::from_str::<Profile>(&text).map_err(describe)?;
            let names_languages = toml::from_str::<toml::Table>(&text).map_err(describe)?.contains_key("languages");
            Ok((profile, names_languages))
        }
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok((Profile::default(), false))
        }
        Err(error) => Err(format!("the profile {} cannot be read: {error}", path.display())),
    }
}

/// Returns the language of the locale, and English after it for agents that do not have it. Returns `None` for a locale
/// without a language, such as C.
fn locale_languages(variable: impl Fn(&str) -> Option<String>) -> Option<Vec<LanguageTag>> {
    // As for messages of every program: the first that is set and not empty.
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(set)?;
    let tag = locale.split(['.', '@']).next().filter(|tag| !matches!(*tag, "C" | "POSIX"))?;
    let language: LanguageTag = tag.replace('_', "-").parse().ok()?;
    let english = "en".parse().ok().filter(|_| !language.as_str().starts_with("en"));
    Some(std::iter::once(language).chain(english).collect())
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
    fn languages_follow_the_locale_of_messages() {
        let languages = |set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            let found = locale_languages(variable);
            found.map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")).unwrap_or_default()
        };
        for (set, expected) in [
            (&[("LANG", "de_DE.UTF-8")][..], "de-DE en"),
            (&[("LANG", "de_DE.UTF-8"), ("LC_MESSAGES", "yo_NG")], "yo-NG en"),
            (&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "en_GB.UTF-8"), ("LC_MESSAGES", "fr_FR")], "en-GB"),
            (&[("LANG", "es_ES@euro"), ("LC_ALL", "")], "es-ES en"),
            (&[("LANG", "ar")], "ar en"),
            (&[("LANG", "de_DE"), ("LC_ALL", "C.UTF-8")], ""),
            (&[("LANG", "POSIX")], ""),
            (&[("LANG", "!")], ""),
            (&[], ""),
        ] {
            assert_eq!(languages(set), expected, "{set:?}");
        }
    }

    #[test]
    fn languages_of_the_profile_take_precedence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.toml");
        for (text, names_languages) in [("languages = [\"yo\"]", true), ("pace_wpm = 300", false)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_profile(Some(&path)).unwrap().1, names_languages, "{text}");
        }
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
