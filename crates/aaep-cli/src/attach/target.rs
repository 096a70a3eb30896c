//! The settings file of an agent. It is replaced at once or not at all, also behind a symbolic link.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_bridge::hooks::HookAgent;

use super::record::AttachRecord;

/// A file that is changed. Its path has no symbolic links.
pub(super) struct Target {
    pub(super) path: PathBuf,
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

impl Target {
    /// Returns the file of an agent for this user.
    pub(super) fn of(agent: HookAgent) -> Result<Target, String> {
        let home = std::env::home_dir().ok_or("there is no home directory")?;
        let below = |variable_name: &str, default: &str| variable(variable_name).unwrap_or_else(|| home.join(default));
        let path = match agent {
            HookAgent::Claude => below("CLAUDE_CONFIG_DIR", ".claude").join("settings.json"),
            HookAgent::Qwen => home.join(".qwen/settings.json"),
            HookAgent::Gemini => home.join(".gemini/settings.json"),
            HookAgent::Codex => below("CODEX_HOME", ".codex").join("hooks.json"),
            HookAgent::Copilot => below("COPILOT_HOME", ".copilot").join("hooks/aaep.json"),
            HookAgent::Opencode => below("XDG_CONFIG_HOME", ".config").join("opencode/plugins/aaep.js"),
        };
        // A link is kept, and the file that it leads to is changed.
        Ok(Target { path: fs::canonicalize(&path).unwrap_or(path) })
    }

    pub(super) fn at(path: &Path) -> Target {
        Target { path: path.to_owned() }
    }

    /// Reads the file. Returns `None` if there is none.
    pub(super) fn read(&self) -> Result<Option<String>, String> {
        match fs::read(&self.path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(format!("{} is not UTF-8; correct it first", self.path.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {error}", self.path.display())),
        }
    }

    /// Replaces the content of the file, and keeps its mode and owner.
    pub(super) fn write(&self, text: &str) -> Result<(), String> {
        self.try_write(text).map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn try_write(&self, text: &str) -> io::Result<()> {
        let old = fs::metadata(&self.path).ok();
        if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
            let message = "it is read-only, so somebody wants it unchanged; make it writable first";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let part = directory.join(format!(".{name}.aaep-{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&part)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| match &old {
            Some(old) => {
                // Only the administrator may keep the owner of another user's file.
                #[cfg(unix)]
                {
                    use std::os::unix::fs::MetadataExt;
                    let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
                }
                fs::set_permissions(&part, old.permissions())
            }
            None => Ok(()),
        });
        let replaced = written.and_then(|()| fs::rename(&part, &self.path));
        if replaced.is_err() {
            let _ = fs::remove_file(&part);
        }
        replaced
    }

    /// Deletes a file that did not exist before, and the directories that were created for it.
    pub(super) fn delete(&self, record: &AttachRecord) -> Result<(), String> {
        fs::remove_file(&self.path).map_err(|error| format!("cannot delete {}: {error}", self.path.display()))?;
        for directory in record.created_directories() {
            // One that is not empty belongs to someone else now.
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Returns the directories that do not exist yet, the innermost first.
    pub(super) fn missing_directories(&self) -> Vec<PathBuf> {
        self.path.ancestors().skip(1).take_while(|directory| !directory.exists()).map(PathBuf::from).collect()
    }
}
