//! The baseline of a move: the same files read, sent over the loopback and written by a minimal
//! program.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::now;

/// Bytes read, sent and written at a time: larger ones are not faster.
const PIECE: usize = 256 << 10;

/// The files of the segments in a partition's folder, with their bytes.
pub(crate) fn segments(folder: &Path) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(Failure::io("listing", folder))? {
        let entry = entry.map_err(Failure::io("listing", folder))?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            let bytes = entry.metadata().map_err(Failure::io("looking at", &path))?.len();
            found.push((path, bytes));
        }
    }
    found.sort();
    Ok(found)
}

/// Copies the files into one. Returns the time from the first read to the last write; nothing is
/// synced.
#[expect(clippy::disallowed_methods, reason = "a plain program to compare with, and no part of the store")]
pub(crate) fn copy(files: &[(PathBuf, u64)], to: &Path) -> Result<Duration, Failure> {
    let connecting = || Failure::while_doing("connecting a copy");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(connecting())?;
    let mut out = TcpStream::connect(listener.local_addr().map_err(connecting())?).map_err(connecting())?;
    let (mut incoming, _) = listener.accept().map_err(connecting())?;
    let mut file = std::fs::File::create(to).map_err(Failure::io("creating", to))?;
    let start = now();
    let receiver = thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        let mut bytes = 0;
        loop {
            let count = incoming.read(&mut piece)?;
            if count == 0 {
                return Ok::<u64, std::io::Error>(bytes);
            }
            file.write_all(&piece[..count])?;
            bytes += count as u64;
        }
    });
    let mut piece = vec![0; PIECE];
    for (path, _) in files {
        let mut from = std::fs::File::open(path).map_err(Failure::io("opening", path))?;
        loop {
            let count = from.read(&mut piece).map_err(Failure::io("reading", path))?;
            if count == 0 {
                break;
            }
            out.write_all(&piece[..count]).map_err(Failure::while_doing("sending a copy"))?;
        }
    }
    drop(out);
    let copied = receiver.join().map_err(|_| Failure::Protocol("the copy's receiver has panicked".into()))?;
    let took = now() - start;
    let copied = copied.map_err(Failure::while_doing("receiving a copy"))?;
    let expected: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    // A file that is still written may have grown.
    if copied < expected {
        return Err(Failure::Protocol(format!("{copied} bytes were copied of {expected}")));
    }
    std::fs::remove_file(to).map_err(Failure::io("removing", to))?;
    Ok(took)
}
