//! Arguments from Python: keys and values, times, conditions.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PyString};
use zerohop_client::{Condition, Expiry, Range, Timestamp, WaitUntil};

use crate::memory;

/// The longest accepted time-out: servers wait no longer than a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Bytes of a caller; of a `str` its UTF-8. Immutable bytes are not copied.
pub(crate) enum Blob {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Blob {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(PyBackedBytes::from(bytes.to_owned())));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self::Text(PyBackedStr::try_from(text.to_owned())?));
        }
        if let Ok(array) = object.cast::<PyByteArray>() {
            return Ok(Self::Bytes(PyBackedBytes::from(array.to_owned())));
        }
        if let Some(bytes) = memory::copy(&object)? {
            return Ok(Self::Bytes(PyBackedBytes::from(bytes)));
        }
        let found = object.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "keys and values are bytes, str (its UTF-8) or buffers, such as arrays of numbers, not {found}"
        )))
    }
}

/// A time-out in seconds.
pub(crate) fn limit(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(PyValueError::new_err(format!("a timeout is 0 to {SECONDS_MAX} seconds, not {seconds}")));
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// The expiry of a record: in so many milliseconds, or at a time in milliseconds since 1970.
pub(crate) fn expiry(after_ms: Option<u64>, at_ms: Option<u64>) -> PyResult<Expiry> {
    match (after_ms, at_ms) {
        (None, None) => Ok(Expiry::Never),
        (Some(ms), None) => Ok(Expiry::AfterMs(ms)),
        (None, Some(ms)) => Ok(Expiry::AtMs(ms)),
        (Some(_), Some(_)) => {
            Err(PyValueError::new_err("a record expires after some time or at a time, not both"))
        }
    }
}

/// The condition of a write.
pub(crate) fn condition(word: Option<&str>, version: Option<u64>) -> PyResult<Condition> {
    match (word, version) {
        (None, None) => Ok(Condition::Always),
        (None, Some(version)) => Ok(Condition::IfVersion(Timestamp(version))),
        (Some("absent"), None) => Ok(Condition::IfAbsent),
        (Some("present"), None) => Ok(Condition::IfPresent),
        (Some(_), _) => {
            Err(PyValueError::new_err("an operation hangs on one condition: absent, present, or a version"))
        }
    }
}

/// A part of a list, up to its end without `stop`.
pub(crate) fn range(start: i64, stop: Option<i64>) -> Range {
    Range { start, stop: stop.unwrap_or(i64::MAX) }
}

/// The condition of a wait.
pub(crate) enum WaitArgument {
    Present,
    Absent,
    Equals(Blob),
    Differs(Blob),
    Changed(u64),
}

impl WaitArgument {
    pub(crate) fn until(&self) -> WaitUntil<'_> {
        match self {
            Self::Present => WaitUntil::Present,
            Self::Absent => WaitUntil::Absent,
            Self::Equals(value) => WaitUntil::Equals(value.as_ref()),
            Self::Differs(value) => WaitUntil::Differs(value.as_ref()),
            Self::Changed(version) => WaitUntil::Changed(Timestamp(*version)),
        }
    }
}

/// The source of the secret or of a token.
pub(crate) struct Credentials {
    pub(crate) secret: Option<Vec<u8>>,
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) token_file: Option<PathBuf>,
}
