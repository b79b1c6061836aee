//! Bytes that are streamed from an argument, a file or standard input.

use std::ffi::OsString;
use std::io::{Cursor, Read, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::mpsc;

use crate::common::ending::CommandError;

/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 4;

/// Bytes, given in one of three ways.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct BytesArguments {
    /// The bytes to write; - reads them from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Reads the bytes to write from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// A source of bytes, with its name for messages.
pub(crate) struct ByteSource {
    from: Box<dyn Read + Send>,
    name: PathBuf,
    /// Its length in bytes, if it is known.
    length: Option<u64>,
}

impl BytesArguments {
    pub(super) fn open(self) -> Result<ByteSource, CommandError> {
        match (self.value, self.file) {
            (Some(text), _) if text == "-" => Ok(ByteSource::standard_input()),
            (Some(text), _) => {
                let name = PathBuf::from("the command line");
                let length = Some(text.len() as u64);
                Ok(ByteSource { from: Box::new(Cursor::new(text.into_vec())), name, length })
            }
            (None, Some(path)) => ByteSource::file(&path),
            (None, None) => Err(CommandError::Usage("no bytes are given".to_owned())),
        }
    }
}

impl ByteSource {
    pub(crate) fn standard_input() -> Self {
        Self { from: Box::new(stdin()), name: PathBuf::from("standard input"), length: None }
    }

    pub(crate) fn file(path: &Path) -> Result<Self, CommandError> {
        #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
        let file =
            std::fs::File::open(path).map_err(|error| CommandError::system("opening", path, &error))?;
        // The length of a pipe or device says nothing.
        let length = file.metadata().ok().filter(|about| about.is_file()).map(|about| about.len());
        Ok(Self { from: Box::new(file), name: path.to_owned(), length })
    }

    /// Its length in bytes; `None`: not known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Reads the pieces ahead on a thread of its own, so that the command still receives signals
    /// while it waits for standard input.
    pub(crate) fn pieces(mut self, bytes_max: u64) -> mpsc::Receiver<Result<Vec<u8>, CommandError>> {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        #[expect(clippy::disallowed_methods, reason = "standard input has no other way to be waited for")]
        std::thread::spawn(move || {
            loop {
                let piece = self.next(bytes_max);
                let is_more = piece.as_ref().is_ok_and(|bytes| !bytes.is_empty());
                let is_end = piece.as_ref().is_ok_and(Vec::is_empty);
                if is_end || sender.blocking_send(piece).is_err() || !is_more {
                    return;
                }
            }
        });
        pieces
    }

    /// The next bytes; the buffer is full except at the end of the source.
    pub(super) fn next(&mut self, bytes_max: u64) -> Result<Vec<u8>, CommandError> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(bytes_max).read_to_end(&mut bytes);
        read.map_err(|error| CommandError::system("reading", &self.name, &error))?;
        Ok(bytes)
    }
}
