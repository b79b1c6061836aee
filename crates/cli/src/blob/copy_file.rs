//! The file that a blob is copied to: its name has either the earlier contents or the whole copy.
//!
//! The bytes go to a temporary file in the same folder, which replaces the file at the end. An error or an interruption removes it.
//! Standard output, devices and pipes, and a file whose folder or owner forbids this, are written directly.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::common::ending::CommandError;
use crate::common::interrupt::{self, CopiedFile};

/// The permissions of a new file, whatever the umask: its bytes may be secret.
const FILE_MODE: u32 = 0o600;

/// The bits of a mode that are permissions.
const PERMISSION_BITS: u32 = 0o7777;

/// The most symbolic links that are followed to a file.
const LINKS_MAX: usize = 40;

/// Names of open descriptors, which a replaced file would not reach.
const DESCRIPTOR_PATHS: [&str; 5] = ["/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/fd/", "/proc/"];

#[derive(Debug)]
pub(crate) struct CopyFile {
    /// The path for messages.
    path: PathBuf,
    into: CopyTarget,
}

#[derive(Debug)]
enum CopyTarget {
    /// Replaces the file `over` at the end.
    Temporary { file: NamedTempFile, over: PathBuf },
    /// Is the file itself.
    Direct { file: File, is_regular: bool },
}

impl CopyFile {
    pub(crate) fn create(path: &Path) -> Result<CopyFile, CommandError> {
        let into = CopyTarget::of(path).map_err(|error| CommandError::system("creating", path, &error))?;
        Ok(CopyFile { path: path.to_owned(), into })
    }

    /// Whether the bytes so far can be discarded.
    pub(crate) fn can_restart(&self) -> bool {
        !matches!(self.into, CopyTarget::Direct { is_regular: false, .. })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        let written = match &mut self.into {
            CopyTarget::Temporary { file, .. } => file.as_file_mut().write_all(bytes),
            CopyTarget::Direct { file, .. } => file.write_all(bytes),
        };
        written.map_err(|error| CommandError::system("writing", &self.path, &error))
    }

    /// Gives the copy its name.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        let CopyFile { path, into } = self;
        let finished = interrupt::finish_copy(&path, || match into {
            CopyTarget::Temporary { file, over } => {
                file.persist(over).map(drop).map_err(|failed| failed.error)
            }
            CopyTarget::Direct { .. } => Ok(()),
        });
        finished.map_err(|error| CommandError::system("writing", &path, &error))
    }
}

impl CopyTarget {
    fn of(path: &Path) -> io::Result<CopyTarget> {
        let over = followed(path);
        #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
        let existing = match File::options().write(true).open(&over) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(file) = existing else {
            return temporary(&over, None).map(|file| CopyTarget::Temporary { file, over });
        };
        let about = file.metadata()?;
        let is_regular = about.is_file();
        if is_regular
            && !is_descriptor(&over)
            && let Ok(file) = temporary(&over, Some(&about))
        {
            return Ok(CopyTarget::Temporary { file, over });
        }
        if is_regular {
            interrupt::note_copy(CopiedFile::Incomplete(path.to_owned()));
            file.set_len(0)?;
        }
        Ok(CopyTarget::Direct { file, is_regular })
    }
}

/// A new file beside `over`, with the owner and the permissions of the file that it will replace.
fn temporary(over: &Path, replaces: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = over.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut options = File::options();
    options.write(true).create_new(true).mode(FILE_MODE);
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    let create =
        || tempfile::Builder::new().prefix(".zerohop-get-").make_in(folder, |path| options.open(path));
    let file = interrupt::create_copy(create, NamedTempFile::path)?;
    let mode = match replaces {
        Some(about) => {
            let own = file.as_file().metadata()?;
            if (own.uid(), own.gid()) != (about.uid(), about.gid()) {
                fchown(file.as_file(), Some(about.uid()), Some(about.gid()))?;
            }
            about.mode() & PERMISSION_BITS
        }
        None => FILE_MODE,
    };
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    Ok(file)
}

/// The path behind symbolic links: a link stays, and the file that it names is replaced. The file may be missing.
fn followed(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        // The links to open descriptors name pipes and sockets by words that are no paths.
        if is_descriptor(&at) {
            break;
        }
        let Ok(link) = std::fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("")).join(link);
    }
    at
}

/// Whether the path is that of an open descriptor.
fn is_descriptor(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    DESCRIPTOR_PATHS.iter().any(|start| path.starts_with(start.as_bytes()))
}
