//! What a settings file was before and after it was changed, so that the change can be undone.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aaep_bridge::hooks::HookAgent;
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::private_file;

/// The record of one attached agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachRecord {
    path: PathBuf,
    before: Option<String>,
    after: String,
    created_directories: Vec<PathBuf>,
}

fn file(agent: HookAgent) -> Result<PathBuf, String> {
    let remembered = crate::remembered::default_path().ok_or("there is no home directory")?;
    Ok(remembered.with_file_name("attached").join(format!("{}.json", agent.as_str())))
}

impl AttachRecord {
    pub(super) fn new(target: &Target, before: Option<String>, after: String) -> AttachRecord {
        let created_directories = target.missing_directories();
        AttachRecord { path: target.path.clone(), before, after, created_directories }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    pub(super) fn after(&self) -> &str {
        &self.after
    }

    pub(super) fn created_directories(&self) -> &[PathBuf] {
        &self.created_directories
    }

    /// Reads the record of an agent. Returns `None` if it is not attached.
    pub(super) fn load(agent: HookAgent) -> Result<Option<AttachRecord>, String> {
        let file = file(agent)?;
        match fs::read_to_string(&file) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| format!("{} is damaged: {error}", file.display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {error}", file.display())),
        }
    }

    /// Writes the record. It is on the disk when this returns.
    pub(super) fn save(&self, agent: HookAgent) -> Result<(), String> {
        let file = file(agent)?;
        let write = || -> io::Result<()> {
            let directory = file.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(directory)?;
            let part = file.with_extension("part");
            let mut out = private_file::options().write(true).truncate(true).open(&part)?;
            out.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
            out.sync_all()?;
            fs::rename(&part, &file)
        };
        write().map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    /// Deletes the record of an agent that is detached.
    pub(super) fn delete(agent: HookAgent) {
        if let Ok(file) = file(agent) {
            let _ = fs::remove_file(file);
        }
    }
}
