//! Values from the command line, a file or standard input.

use std::ffi::OsString;
use std::io::{Read, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::Args;
use zerohop_wire::limits::VALUE_BYTES_MAX;

use super::ending::CommandError;
use super::names;

/// One value, given in one of three ways.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ValueArguments {
    /// The value; `-` reads it from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Reads the value from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ValueArguments {
    pub(crate) fn read(self) -> Result<Vec<u8>, CommandError> {
        match (self.value, self.file) {
            (Some(text), _) => argument(text),
            (None, Some(path)) => file(&path),
            (None, None) => Err(CommandError::Usage("no value is given".to_owned())),
        }
    }
}

/// The bytes of an argument, or standard input for `-`.
pub(crate) fn argument(text: OsString) -> Result<Vec<u8>, CommandError> {
    if text == "-" {
        return bounded(stdin().lock(), Path::new("standard input"));
    }
    Ok(text.into_vec())
}

/// The contents of a file.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, CommandError> {
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    let file = std::fs::File::open(path).map_err(|error| CommandError::system("opening", path, &error))?;
    bounded(file, path)
}

/// Reads at most one byte more than a value may have: the extra byte shows that it is too long.
fn bounded(from: impl Read, name: &Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    from.take(VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::system("reading", name, &error))?;
    if bytes.len() > VALUE_BYTES_MAX {
        let reason = format!(
            "{}: has more than the {VALUE_BYTES_MAX} bytes that a value may have: store it as a blob, with `zerohop blob put`",
            names::path(name)
        );
        return Err(CommandError::Refused(reason));
    }
    Ok(bytes)
}
