//! The location of the demo's data.

use std::path::{Path, PathBuf};

use crate::common::demo_error::DemoError;
use tempfile::TempDir;

#[derive(Debug)]
pub(super) enum DemoFolder {
    /// Removed at the end.
    Temporary(TempDir),
    /// Kept at the end.
    Kept(PathBuf),
}

impl DemoFolder {
    /// Creates the folder `data`, or uses it if it is empty; without one, creates a temporary
    /// folder.
    pub(super) fn make(data: Option<&Path>, keep: bool) -> Result<Self, DemoError> {
        let Some(path) = data else {
            let folder = tempfile::Builder::new().prefix("zerohop-demo-").tempdir();
            let folder = folder.map_err(|error| {
                DemoError::system("making a temporary folder", &std::env::temp_dir(), &error)
            })?;
            return Ok(if keep { DemoFolder::Kept(folder.keep()) } else { DemoFolder::Temporary(folder) });
        };
        std::fs::create_dir_all(path)
            .map_err(|error| DemoError::system("making the folder", path, &error))?;
        let mut names =
            std::fs::read_dir(path).map_err(|error| DemoError::system("reading the folder", path, &error))?;
        match names.next() {
            None => Ok(DemoFolder::Kept(path.to_owned())),
            Some(_) => Err(DemoError::DataNotEmpty { path: path.to_owned() }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            DemoFolder::Temporary(folder) => folder.path(),
            DemoFolder::Kept(path) => path,
        }
    }

    /// Removes a temporary folder; with faults it is kept for inspection. Returns the location of
    /// data that is kept.
    pub(super) fn end(self, is_well: bool) -> Result<Option<String>, DemoError> {
        match self {
            DemoFolder::Temporary(folder) if !is_well => Ok(Some(folder.keep().display().to_string())),
            DemoFolder::Temporary(folder) => {
                let path = folder.path().to_owned();
                folder
                    .close()
                    .map_err(|error| DemoError::system("removing the temporary folder", &path, &error))?;
                Ok(None)
            }
            DemoFolder::Kept(path) => Ok(Some(path.display().to_string())),
        }
    }
}
