//! Memory that a Python object lends through the buffer protocol: arrays, `bytes`, `bytearray`,
//! views of files.
//!
//! It is read and written in place, without the GIL, so that a large transfer needs no further copy
//! and other threads run. The object cannot move or free it meanwhile: the buffer stays exported
//! until this is dropped.

#![expect(
    unsafe_code,
    reason = "memory of Python, used while Python is let go, is known by its address alone"
)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// A copy of the bytes of an object with the buffer protocol, in the order of C; `None` for another object, and for one that does not lend its
/// memory, such as an array of dates.
///
/// The bytes of Python objects are addresses, and are refused.
pub(crate) fn copy<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    if view.getattr("format")?.extract::<String>()?.contains('O') {
        return Err(PyTypeError::new_err(
            "an array of Python objects has no bytes of its own: store pickle.dumps(array), or an array of numbers",
        ));
    }
    Ok(Some(view.call_method0("tobytes")?.cast_into::<PyBytes>()?))
}

/// Contiguous bytes of a Python object. Dropping it acquires the GIL for a moment.
pub(crate) struct Memory {
    lent: PyUntypedBuffer,
    start: *mut u8,
    length: usize,
}

// SAFETY: `lent` keeps the memory at this address, and may move to any thread. All reads and writes
// through it are within the bounds that `slice` and `fill` state.
unsafe impl Send for Memory {}
// SAFETY: likewise.
unsafe impl Sync for Memory {}

impl Memory {
    /// The bytes of an object, for reading.
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

    /// The bytes of an object, for reading and writing.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::readable(object)?;
        match memory.lent.readonly() {
            true => Err(PyBufferError::new_err("the memory can only be read, and is to be written to")),
            false => Ok(memory),
        }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Up to `length` bytes from an index on. If the object is written meanwhile, a mixture of old
    /// and new bytes may be sent, as with any file.
    pub(crate) fn slice(&self, at: usize, length: usize) -> &[u8] {
        let at = at.min(self.length);
        let length = length.min(self.length - at);
        if length == 0 {
            return &[];
        }
        // SAFETY: `at + length` is within the `self.length` bytes that `lent` keeps at `start`,
        // which is not null as the length is not zero. They are bytes, of any alignment and value.
        // They are only copied from.
        unsafe { slice::from_raw_parts(self.start.add(at).cast_const(), length) }
    }

    /// Copies bytes to an index, as far as they fit; only for [`Memory::writable`]. Returns the
    /// number copied.
    pub(crate) fn fill(&self, at: usize, bytes: &[u8]) -> usize {
        let at = at.min(self.length);
        let length = bytes.len().min(self.length - at);
        if length == 0 || self.lent.readonly() {
            return 0;
        }
        // SAFETY: `at + length` is within the memory, as above, and within `bytes`, which came from
        // the network and are not Python's, so that they do not overlap. No reference into the
        // memory exists: `slice` is not used on memory that is filled.
        unsafe { self.start.add(at).copy_from_nonoverlapping(bytes.as_ptr(), length) };
        length
    }
}
