//! What a child prints, kept in files rather than pipes: a child that talks a lot cannot block on them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Command, Stdio};

/// Bytes of standard error that a failure shows: its end, where programs say why they give up.
const STDERR_BYTES_SHOWN: usize = 2_000;

/// See the module.
#[derive(Debug)]
pub struct ServerOutput {
    stdout: File,
    stderr: File,
}

impl ServerOutput {
    /// Has `command` print into new files, and read nothing.
    ///
    /// # Errors
    /// If there is no room for temporary files.
    pub fn of(command: &mut Command) -> io::Result<ServerOutput> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        // A panic's first line says what happened; its trace would push that out of what is shown.
        command.env("RUST_BACKTRACE", "0");
        Ok(ServerOutput { stdout, stderr })
    }

    /// All that it has printed so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stdout(&mut self) -> io::Result<String> {
        contents(&mut self.stdout)
    }

    /// The end of what it has printed to standard error so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn last_words(&mut self) -> io::Result<String> {
        let text = contents(&mut self.stderr)?;
        let mut from = text.len().saturating_sub(STDERR_BYTES_SHOWN);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        Ok(text[from..].into())
    }
}

fn contents(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
