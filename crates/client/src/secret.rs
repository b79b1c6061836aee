//! Files with the cluster's secret, tokens and private keys, and the random numbers of proofs.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};
use zerohop_tls::limits::PEM_BYTES_MAX;
use zerohop_wire::auth::{InvalidToken, Nonces, Secret, SecretError, Token};
use zerohop_wire::escaped::shown_path;
use zerohop_wire::limits::SECRET_BYTES_MAX;

/// File permissions that only the owner may have.
const OTHERS: u32 = 0o077;

/// What to do if another user may have read a secret.
const NEW_SECRET: &str = "make a new secret with `zerohop secret new`, and give it to all nodes and clients";

/// The same for a token.
const NEW_TOKEN: &str =
    "revoke the token with `zerohop token revoke NAME`, and make a new one with `zerohop token new`";

/// The same for a private key.
const NEW_KEY: &str = "make a new key and certificate with `zerohop tls new` or `zerohop tls add`";

/// The reason why a secret could not be read from a file. No variant shows any content of the file.
#[derive(Debug)]
pub enum SecretFileError {
    /// The operating system reports an error.
    System {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Users other than the owner may read or change the file.
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// In words, what to do if another user may have read it.
        replacing: &'static str,
    },
    /// The path is a folder or something else that is not a regular file.
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The content of the file is not a token.
    Token {
        /// The file.
        path: PathBuf,
    },
    /// The content of the file is not a secret.
    Text {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: SecretError,
    },
}

/// Reads a secret from a file that only its owner may read.
///
/// # Errors
/// [`SecretFileError`].
pub fn read_secret(path: &Path) -> Result<Secret, SecretFileError> {
    let text = read_private(path, SECRET_BYTES_MAX + 2, NEW_SECRET)?;
    Secret::from_chosen(&text).map_err(|error| SecretFileError::Text { path: path.to_owned(), error })
}

/// Reads a token from a file that only its owner may read.
///
/// # Errors
/// [`SecretFileError`].
pub fn read_token(path: &Path) -> Result<Token, SecretFileError> {
    let text = read_private(path, SECRET_BYTES_MAX, NEW_TOKEN)?;
    Token::from_text(&text).map_err(|_| SecretFileError::Token { path: path.to_owned() })
}

/// Draws the number of a new token and writes the token to a new file that only its owner may read. The cluster accepts the token only after its
/// number has been registered.
///
/// # Errors
/// Same as [`write_new_secret`].
pub fn write_new_token(path: &Path, secret: &Secret) -> Result<Token, SecretFileError> {
    let error =
        |error| SecretFileError::System { path: path.to_owned(), operation: "drawing random bytes", error };
    let [a, b, c, d, e, f, g, h, ..] = random_bytes().map_err(error)?;
    let token = secret.token(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
    write_private(path, format!("{}\n", token.text()).as_bytes())?;
    Ok(token)
}

/// Writes a new secret to a new file that only its owner may read.
///
/// # Errors
/// [`SecretFileError::System`]; also if the file already exists, which the call does not change.
pub fn write_new_secret(path: &Path) -> Result<(), SecretFileError> {
    let failed = |operation| {
        move |error: io::Error| SecretFileError::System { path: path.to_owned(), operation, error }
    };
    let random = random_bytes().map_err(failed("drawing random bytes"))?;
    write_private(path, Secret::new_text(random).as_bytes())
}

/// Reads the private key of a certificate, as PEM, from a file that only its owner may read.
///
/// # Errors
/// [`SecretFileError`].
pub fn read_key(path: &Path) -> Result<Vec<u8>, SecretFileError> {
    read_private(path, PEM_BYTES_MAX, NEW_KEY)
}

/// Writes a private key to a new file that only its owner may read.
///
/// # Errors
/// [`SecretFileError::System`]; also if the file already exists, which the call does not change.
pub fn write_key(path: &Path, pem: &[u8]) -> Result<(), SecretFileError> {
    write_private(path, pem)
}

/// Creates a file that only its owner may read.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), SecretFileError> {
    let failed = |operation| {
        move |error: io::Error| SecretFileError::System { path: path.to_owned(), operation, error }
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let mut file = std::fs::File::from(file.map_err(|errno| failed("making the file")(errno.into()))?);
    io::Write::write_all(&mut file, bytes).map_err(failed("writing"))?;
    file.sync_all().map_err(failed("syncing"))
}

/// Reads at most this many bytes of a file that only its owner may read.
fn read_private(path: &Path, bytes_max: usize, replacing: &'static str) -> Result<Vec<u8>, SecretFileError> {
    let failed = |operation| {
        move |error: io::Error| SecretFileError::System { path: path.to_owned(), operation, error }
    };
    // Non-blocking, because the path may be a pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = std::fs::File::from(file.map_err(|errno| failed("opening")(errno.into()))?);
    let about = rustix::fs::fstat(&file).map_err(|errno| failed("looking at")(errno.into()))?;
    if !rustix::fs::FileType::from_raw_mode(about.st_mode).is_file() {
        return Err(SecretFileError::NotAFile { path: path.to_owned() });
    }
    if about.st_mode & OTHERS != 0 {
        return Err(SecretFileError::Open { path: path.to_owned(), mode: about.st_mode & 0o777, replacing });
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64).read_to_end(&mut bytes).map_err(failed("reading"))?;
    Ok(bytes)
}

/// A source of nonces with a seed from the operating system.
pub(crate) fn nonces() -> io::Result<Nonces> {
    random_bytes().map(Nonces::new)
}

pub(crate) fn random_bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        32 => Ok(bytes),
        _ => Err(io::Error::other("the system gave too few random bytes")),
    }
}

impl std::error::Error for SecretFileError {}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { path, operation, error } => {
                write!(f, "{}: {operation} failed: {error}", shown_path(path))
            }
            Self::Open { path, mode, replacing } => write!(
                f,
                "{path}: other users can read or change it (its mode is {mode:04o}): `chmod 600 {path}`. If another user may have read it, \
                 {replacing}",
                path = shown_path(path)
            ),
            Self::NotAFile { path } => write!(f, "{}: it is not a file", shown_path(path)),
            Self::Token { path } => write!(f, "{}: {InvalidToken}", shown_path(path)),
            Self::Text { path, error } => write!(f, "{}: {error}", shown_path(path)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files of all kinds")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn new_secret_file_is_readable_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        write_new_secret(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let secret = read_secret(&path).unwrap();
        let error = write_new_secret(&path).unwrap_err().to_string();
        assert!(error.contains("making the file") && error.contains("exists"), "{error}");
        assert_eq!(read_secret(&path).unwrap(), secret);
    }

    #[test]
    fn invalid_secret_file_is_refused_without_revealing_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd");
        let text = "swordfish";
        for (mode, bytes, words) in [
            (0o644, text.repeat(5), "mode is 0644"),
            (0o640, text.repeat(5), "chmod 600"),
            (0o602, text.repeat(5), "mode is 0602"),
            (0o600, text.to_owned(), "has 9 bytes and needs 32"),
            (0o600, text.repeat(1000), "another file"),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains(text), "{error}");
        }
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let token = read_token(&path).unwrap_err().to_string();
        assert!(token.contains("chmod 600") && token.contains("`zerohop token revoke NAME`"), "{token}");
        assert!(!token.contains("secret new"), "{token}");
        let key = read_key(&path).unwrap_err().to_string();
        assert!(key.contains("chmod 600") && key.contains("`zerohop tls new`"), "{key}");
        std::fs::remove_file(&path).unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("opening failed"));
        assert!(read_secret(folder.path()).unwrap_err().to_string().contains("not a file"));
    }
}
