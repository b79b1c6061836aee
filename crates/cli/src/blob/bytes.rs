//! Bytes that are streamed in: from an argument, a file or standard input.

use std::ffi::OsString;
use std::io::{Cursor, Read, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::common::ending::CommandError;

/// Bytes, given in one of three ways.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct GivenBytes {
    /// The bytes; `-` reads them from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Reads them from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Where bytes come from, and what it is called.
pub(super) struct Source {
    from: Box<dyn Read>,
    name: PathBuf,
}

impl GivenBytes {
    pub(super) fn open(self) -> Result<Source, CommandError> {
        match (self.value, self.file) {
            (Some(text), _) if text == "-" => Ok(Source::standard_input()),
            (Some(text), _) => {
                let name = PathBuf::from("the command line");
                Ok(Source { from: Box::new(Cursor::new(text.into_vec())), name })
            }
            (None, Some(path)) => Source::file(&path),
            (None, None) => Err(CommandError::Usage("no bytes are given".to_owned())),
        }
    }
}

impl Source {
    pub(super) fn standard_input() -> Self {
        Self { from: Box::new(stdin()), name: PathBuf::from("standard input") }
    }

    pub(super) fn file(path: &Path) -> Result<Self, CommandError> {
        #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
        let file =
            std::fs::File::open(path).map_err(|error| CommandError::system("opening", path, &error))?;
        Ok(Self { from: Box::new(file), name: path.to_owned() })
    }

    /// The next bytes, in a buffer that is filled but at the end.
    pub(super) fn next(&mut self, bytes_max: u64) -> Result<Vec<u8>, CommandError> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(bytes_max).read_to_end(&mut bytes);
        read.map_err(|error| CommandError::system("reading", &self.name, &error))?;
        Ok(bytes)
    }
}
