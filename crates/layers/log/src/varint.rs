//! Numbers of variable length: seven bits a byte, the lowest first, as few bytes as the number needs.

use zerohop_base::bytes::Reader;

pub(crate) fn write_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// The number, unless it is longer than it needs to be.
pub(crate) fn read_varint(reader: &mut Reader<'_>) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return (shift == 0 || byte != 0).then_some(number);
        }
    }
    None
}

/// Appends bytes behind their length plus one; 0 stands for none.
pub(crate) fn write_optional(into: &mut Vec<u8>, bytes: Option<&[u8]>) {
    write_varint(into, bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
    into.extend_from_slice(bytes.unwrap_or_default());
}

pub(crate) fn read_optional<'a>(reader: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    match read_varint(reader)? {
        0 => Some(None),
        length => reader.bytes(usize::try_from(length - 1).ok()?).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_longer_forms_are_refused() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!((read_varint(&mut reader), reader.is_at_end()), (Some(number), true));
            assert_eq!(read_varint(&mut Reader::new(&bytes[..bytes.len() - 1])), None);
        }
        let too_long = [&[0xff; 9][..], &[2]].concat();
        for bytes in [&[0x80, 0][..], &[0xff, 0x80, 0], &too_long, &[0x80; 11]] {
            assert_eq!(read_varint(&mut Reader::new(bytes)), None, "{bytes:?}");
        }
    }
}
