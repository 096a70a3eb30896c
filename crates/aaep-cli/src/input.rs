//! Files that commands read.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file. The error completes a sentence that begins with the path.
pub(crate) fn open(path: &Path) -> Result<File, String> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
        _ => format!("cannot be opened: {error}"),
    })?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err("is a directory; give a file".to_owned()),
        _ => Ok(file),
    }
}
