//! Complete writes and reads of data in one or several buffers.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, Result, retry_on_intr};

/// Maximum number of buffers in one call.
const PIECES_MAX: usize = 64;

/// From this number of bytes on, the file is preallocated before the write: the file system allocates once instead of for each block of 4 KiB,
/// which takes a third of the time of such a write. For fewer bytes the call costs more than it saves.
const PREALLOCATE_BYTES_MIN: u64 = 256 << 10;

/// Has the file system allocate room for the bytes of the next write, if that is worth it; the file's length does not change. Errors: there is no
/// room. A file system without this operation is not an error.
pub(super) fn preallocate(file: &OwnedFd, at: u64, bytes: u64) -> Result<()> {
    if bytes < PREALLOCATE_BYTES_MIN {
        return Ok(());
    }
    unless_full(retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, at, bytes)))
}

fn unless_full(made: Result<()>) -> Result<()> {
    made.or_else(|errno| if matches!(errno, Errno::NOSPC | Errno::DQUOT) { Err(errno) } else { Ok(()) })
}

/// Writes all of the pieces one after the other, however few bytes one `write` accepts.
pub(super) fn write_pieces(
    mut pieces: &[&[u8]],
    mut at: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> Result<usize>,
) -> Result<()> {
    // Number of written bytes of the first piece.
    let mut within = 0;
    loop {
        while let [first, rest @ ..] = pieces
            && within >= first.len()
        {
            within -= first.len();
            pieces = rest;
        }
        let [first, behind @ ..] = pieces else { return Ok(()) };
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        slices[0] = IoSlice::new(&first[within..]);
        for (slice, piece) in slices[1..].iter_mut().zip(behind) {
            *slice = IoSlice::new(piece);
        }
        match write(&slices[..pieces.len().min(PIECES_MAX)], at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                within += written;
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Writes all of `data`, however few bytes one `write` accepts.
pub(super) fn write_all(
    mut data: &[u8],
    mut at: u64,
    mut write: impl FnMut(&[u8], u64) -> Result<usize>,
) -> Result<()> {
    while !data.is_empty() {
        match write(data, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                data = &data[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Fills `into`, however few bytes one `read` returns. The error is `None` at the end of the file.
pub(super) fn read_all(
    mut into: &mut [u8],
    mut at: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize>,
) -> std::result::Result<(), Option<Errno>> {
    while !into.is_empty() {
        match read(into, at) {
            Ok(0) => return Err(None),
            Ok(got) => {
                into = &mut into[got..];
                at += got as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Some(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `step` bytes per call and records them; every third call is interrupted.
    fn write(pieces: &[&[u8]], step: usize) -> (Vec<u8>, usize) {
        let (mut file, mut calls) = (b"..".to_vec(), 0);
        let written = write_pieces(pieces, 2, |slices, at| {
            calls += 1;
            assert_eq!(at as usize, file.len(), "behind what is written");
            assert!(slices.len() <= PIECES_MAX && slices.iter().any(|slice| !slice.is_empty()));
            if calls % 3 == 0 {
                return Err(Errno::INTR);
            }
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let length = all.len().min(step);
            file.extend_from_slice(&all[..length]);
            Ok(length)
        });
        assert_eq!(written, Ok(()));
        (file.split_off(2), calls)
    }

    #[test]
    fn pieces_are_written_in_order_despite_short_writes() {
        let pieces: [&[u8]; 6] = [b"", b"some", b"", b"", b" pieces", b"."];
        for step in 1..=12 {
            assert_eq!(write(&pieces, step).0, b"some pieces.", "{step} at once");
        }
        let none: [&[u8]; 2] = [b"", b""];
        assert_eq!(write(&none, 1), (Vec::new(), 0));
        let many = vec![&b"ab"[..]; 3 * PIECES_MAX + 1];
        assert_eq!(write(&many, usize::MAX).0, many.concat());
    }

    #[test]
    fn preallocation_keeps_length_and_fails_only_on_full_disk() {
        let file = tempfile::tempfile().unwrap();
        let bytes = || file.metadata().unwrap().len();
        let descriptor: OwnedFd = file.try_clone().unwrap().into();
        preallocate(&descriptor, 10, 4 * PREALLOCATE_BYTES_MIN).unwrap();
        assert_eq!(bytes(), 0);
        assert!(unless_full(Ok(())).is_ok());
        for errno in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::FBIG] {
            assert_eq!(unless_full(Err(errno)), Ok(()), "{errno:?}");
        }
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert_eq!(unless_full(Err(errno)), Err(errno));
        }
    }

    #[test]
    fn write_error_is_reported() {
        let pieces: [&[u8]; 2] = [b"a", b"b"];
        assert_eq!(write_pieces(&pieces, 0, |_, _| Ok(0)), Err(Errno::IO));
        assert_eq!(
            write_pieces(&pieces, 0, |_, at| if at == 0 { Ok(1) } else { Err(Errno::NOSPC) }),
            Err(Errno::NOSPC)
        );
    }
}
