//! Memory that an object of Python lends through the buffer protocol: arrays, `bytes`, `bytearray`, views of files.
//!
//! It is read and written where it stands, without holding Python, so that a large transfer copies nothing more and other
//! threads run. The object cannot move or free it meanwhile: it knows that its memory is lent, until this is dropped.

#![expect(
    unsafe_code,
    reason = "memory of Python, used while Python is let go, is known by its address alone"
)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// Contiguous bytes of an object of Python. Letting go of it takes hold of Python for a moment.
pub(crate) struct Memory {
    lent: PyUntypedBuffer,
    start: *mut u8,
    length: usize,
}

// SAFETY: the address is that of memory that `lent` keeps where it is, and `lent` may go to any thread; what reads and writes
// through it is within what `slice` and `fill` state.
unsafe impl Send for Memory {}
// SAFETY: likewise.
unsafe impl Sync for Memory {}

impl Memory {
    /// The bytes of an object, to be read.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let lent = PyUntypedBuffer::get(object)?;
        if !lent.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the bytes do not lie one behind the other: bring a contiguous copy, as by numpy.ascontiguousarray",
            ));
        }
        let (start, length) = (lent.buf_ptr().cast(), lent.len_bytes());
        Ok(Self { lent, start, length })
    }

    /// The bytes of an object, to be written too.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::readable(object)?;
        match memory.lent.readonly() {
            true => Err(PyBufferError::new_err("the memory can only be read, and is to be written to")),
            false => Ok(memory),
        }
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// So many bytes from a place on, or as many as there are. Whoever writes to the object meanwhile gets some of the old
    /// bytes sent and some of the new, as with any file.
    pub(crate) fn slice(&self, at: usize, length: usize) -> &[u8] {
        let at = at.min(self.length);
        let length = length.min(self.length - at);
        if length == 0 {
            return &[];
        }
        // SAFETY: `at + length` is within the `self.length` bytes that `lent` keeps at `start`, which is not null as there are
        // some. They are bytes, of any alignment and value. They are only copied from.
        unsafe { slice::from_raw_parts(self.start.add(at).cast_const(), length) }
    }

    /// Puts bytes into a place, as far as they fit. Only for memory that is [`Memory::writable`]. How many did.
    pub(crate) fn fill(&self, at: usize, bytes: &[u8]) -> usize {
        let at = at.min(self.length);
        let length = bytes.len().min(self.length - at);
        if length == 0 || self.lent.readonly() {
            return 0;
        }
        // SAFETY: `at + length` is within the memory, as above, and within `bytes`, which came off the network and is none of
        // Python's, so that they do not overlap. Nobody holds a reference into the memory: `slice` is not used on what is
        // filled.
        unsafe { self.start.add(at).copy_from_nonoverlapping(bytes.as_ptr(), length) };
        length
    }
}
