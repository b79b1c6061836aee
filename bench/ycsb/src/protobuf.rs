//! Messages of Protocol Buffers, as far as etcd's requests and answers need them.

use bench_common::failure::Failure;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValue<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Appends a field of bytes, or of a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_number(out, field << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field with a number.
pub(crate) fn put_integer(out: &mut Vec<u8>, field: u64, number: u64) {
    put_number(out, field << 3);
    put_number(out, number);
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The fields of a message, by their numbers.
///
/// # Errors The bytes are no message, or have a field of another kind.
pub(crate) fn fields(mut message: &[u8]) -> Result<Vec<(u64, FieldValue<'_>)>, Failure> {
    let broken = || Failure::Protocol("a message that is none".into());
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message).ok_or_else(broken)?;
        let value = number(&mut message).ok_or_else(broken)?;
        let value = match tag & 7 {
            0 => FieldValue::Number(value),
            2 => {
                let length = usize::try_from(value).map_err(|_| broken())?;
                let (bytes, rest) = message.split_at_checked(length).ok_or_else(broken)?;
                message = rest;
                FieldValue::Bytes(bytes)
            }
            _ => return Err(broken()),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_documented_bytes() {
        let mut out = Vec::new();
        put_integer(&mut out, 1, 150);
        put_bytes(&mut out, 2, b"testing");
        assert_eq!(out, b"\x08\x96\x01\x12\x07testing");
        let long = vec![7; 300];
        put_bytes(&mut out, 16, &long);
        assert_eq!(out[12..16], [0x82, 0x01, 0xac, 0x02]);
        let expected = [
            (1, FieldValue::Number(150)),
            (2, FieldValue::Bytes(b"testing")),
            (16, FieldValue::Bytes(&long)),
        ];
        assert_eq!(fields(&out).unwrap(), expected);
        for number in [0, 127, 128, 16_383, 16_384, u64::MAX] {
            let mut out = Vec::new();
            put_integer(&mut out, 5, number);
            assert_eq!(fields(&out).unwrap(), [(5, FieldValue::Number(number))]);
        }
    }

    #[test]
    fn broken_messages_are_refused() {
        for bytes in [&b"\x12"[..], b"\x12\x05abc", b"\x0d\0\0\0\0", &[0xff; 12]] {
            assert!(fields(bytes).is_err(), "{bytes:?}");
        }
    }
}
