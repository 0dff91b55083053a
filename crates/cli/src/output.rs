//! Files that results go to.

use crate::Failure;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file opened before the run and filled after it.
pub(crate) struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// What is in the file stays until there is something to put there.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        Ok(Output { file, path: path.to_owned() })
    }

    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let cut = match self.file.metadata() {
            // A device or a pipe has no length to cut.
            Ok(metadata) if !metadata.is_file() => Ok(()),
            _ => self.file.set_len(0),
        };
        let written = cut.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| Failure::Run(format!("{}: {error}", self.path.display())))
    }
}
