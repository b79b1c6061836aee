//! Sequences of elements in one frame, without a vector to store them.

use std::fmt;

use crate::error::Failure;
use crate::limits::BODY_BYTES_MAX;

/// A type of which a frame can have several elements.
pub trait Element<'a>: Clone {
    /// Maximum number in one frame.
    const COUNT_MAX: u32;

    /// Writes all but its last bytes to `out`, and returns the last bytes. Errors: a limit is exceeded, or the element cannot be encoded.
    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>>;

    /// Decodes one element from the front of `bytes` and removes it. Errors: the bytes are invalid.
    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>>;
}

/// Several borrowed elements: a slice of them on the sender, their validated bytes on the receiver.
#[derive(Clone, Copy)]
pub struct Elements<'a, T>(Form<'a, T>);

#[derive(Clone, Copy)]
enum Form<'a, T> {
    FromSlice(&'a [T]),
    /// `bytes` holds exactly `count` elements that `take` accepts.
    Packed {
        count: u32,
        bytes: &'a [u8],
    },
}

impl<'a, T: Element<'a>> Elements<'a, T> {
    /// The elements of a slice, for sending.
    #[must_use]
    pub fn from_slice(elements: &'a [T]) -> Self {
        Self(Form::FromSlice(elements))
    }

    /// Elements that [`pack`] has written one after the other, or that were received. All of them are validated, so that iteration cannot fail
    /// later. Errors: there are more than allowed, or the bytes have a number other than `count`.
    pub fn packed(count: u32, bytes: &'a [u8]) -> Result<Self, Failure<'static>> {
        check_count::<T>(count as usize)?;
        let mut rest = bytes;
        for _ in 0..count {
            T::take(&mut rest)?;
        }
        crate::fields::nothing_left(rest)?;
        Ok(Self(Form::Packed { count, bytes }))
    }

    /// All the elements that [`pack`] has written into these bytes, in any number. All of them are validated. Errors: as [`Self::packed`].
    pub fn all(bytes: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut rest, mut count) = (bytes, 0);
        while !rest.is_empty() {
            T::take(&mut rest)?;
            count += 1;
        }
        check_count::<T>(count as usize)?;
        Ok(Self(Form::Packed { count, bytes }))
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            Form::FromSlice(elements) => elements.len(),
            Form::Packed { count, .. } => count as usize,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let (given, mut packed): (&'a [T], &'a [u8]) = match self.0 {
            Form::FromSlice(elements) => (elements, &[]),
            Form::Packed { bytes, .. } => (&[], bytes),
        };
        // The bytes were validated when this was created, so `take` stops at their end and not before.
        let packed = std::iter::from_fn(move || match packed {
            [] => None,
            _ => T::take(&mut packed).ok(),
        });
        given.iter().cloned().chain(packed)
    }

    /// Writes all but the last element's last bytes to `out`, and returns the last bytes.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_count::<T>(self.len())?;
        match self.0 {
            Form::Packed { bytes, .. } => Ok(bytes),
            Form::FromSlice([]) => Ok(&[]),
            Form::FromSlice([before @ .., last]) => {
                let start = out.len();
                for element in before {
                    pack(element, out)?;
                    check_body(out.len() - start)?;
                }
                last.put(out)
            }
        }
    }

    /// The number of elements, as it is on the wire.
    #[must_use]
    pub fn count(&self) -> u32 {
        // `put` and `packed` refuse more than `COUNT_MAX` elements, before this number can reach a frame.
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }
}

/// Appends one element to those in `out`, for [`Elements::packed`]. Errors: as [`Element::put`].
pub fn pack<'a, T: Element<'a>>(element: &T, out: &mut Vec<u8>) -> Result<(), Failure<'static>> {
    let tail = element.put(out)?;
    out.extend_from_slice(tail);
    Ok(())
}

/// Checks the limit before more bytes are copied than a frame can have.
fn check_body(length: usize) -> Result<(), Failure<'static>> {
    if length > BODY_BYTES_MAX {
        return Err(Failure::FrameTooLong { length: length as u64, limit: BODY_BYTES_MAX as u32 });
    }
    Ok(())
}

fn check_count<'a, T: Element<'a>>(count: usize) -> Result<(), Failure<'static>> {
    if count > T::COUNT_MAX as usize {
        return Err(Failure::TooMany { count: count as u64, limit: T::COUNT_MAX });
    }
    Ok(())
}

impl<'a, T: Element<'a>> Default for Elements<'a, T> {
    fn default() -> Self {
        Self::from_slice(&[])
    }
}

impl<'a, T: Element<'a> + PartialEq> PartialEq for Elements<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Element<'a> + Eq> Eq for Elements<'a, T> {}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for Elements<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One value of a list: `u32` length, bytes.
impl<'a> Element<'a> for &'a [u8] {
    const COUNT_MAX: u32 = crate::limits::APPEND_VALUES_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let length = crate::record::check_value(self)?;
        out.extend_from_slice(&length.to_le_bytes());
        Ok(self)
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let value = crate::fields::take_length_prefixed(bytes)?;
        crate::record::check_value(value)?;
        Ok(value)
    }
}
