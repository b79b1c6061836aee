//! The output of a child, in files rather than pipes: a child with much output cannot block.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Command, Stdio};

/// Bytes of standard error in a failure: the end, where programs report their error.
const STDERR_BYTES_SHOWN: usize = 2_000;

/// See the module.
#[derive(Debug)]
pub struct ServerOutput {
    stdout: File,
    stderr: File,
}

impl ServerOutput {
    /// Redirects the output of `command` to new files, and its input to nothing.
    ///
    /// # Errors Temporary files cannot be created.
    pub fn of(command: &mut Command) -> io::Result<ServerOutput> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        // A panic's first line has the cause; a trace would move it out of the shown part.
        command.env("RUST_BACKTRACE", "0");
        Ok(ServerOutput { stdout, stderr })
    }

    /// The output so far.
    ///
    /// # Errors The file cannot be read.
    pub fn stdout(&mut self) -> io::Result<String> {
        contents(&mut self.stdout)
    }

    /// The end of standard error so far.
    ///
    /// # Errors The file cannot be read.
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
