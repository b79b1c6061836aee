//! The payload of list entries: the values that one `push` adds.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | number of values |
//! | 4 | | values: 4 bytes of length each, then as many bytes |
//!
//! Little-endian. The number comes first because the engine uses it to count a list's values ([`zerohop_engine::EntryKind::Append`]); the engine
//! leaves it out when it assembles a list.

/// Length of a payload without the values themselves.
pub(super) const fn overhead_bytes(values: usize) -> usize {
    4 + 4 * values
}

/// The payload that adds one value.
pub(super) fn encode_one(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(overhead_bytes(1) + value.len());
    payload.extend_from_slice(&1u32.to_le_bytes());
    payload.extend_from_slice(&(value.len() as u32).to_le_bytes());
    payload.extend_from_slice(value);
    payload
}

/// The values of an assembled list, which has no numbers before its parts. `None` if the bytes are invalid.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        values.push(value.to_vec());
        bytes = rest;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_values_decode_in_order() {
        let values: Vec<Vec<u8>> = vec![b"one".to_vec(), Vec::new(), vec![7; 1000]];
        let list: Vec<u8> = values.iter().flat_map(|value| encode_one(value)[4..].to_vec()).collect();
        assert_eq!(decode(&list), Some(values));
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn list_encoding_equals_pinned_bytes() {
        assert_eq!(encode_one(b"ab"), [1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(encode_one(b"").len(), overhead_bytes(1));
    }

    #[test]
    fn bytes_of_invalid_list_are_refused() {
        for bad in [&[1][..], &[1, 0, 0, 0], &[255, 255, 255, 255, 1], &[0, 0, 0, 0, 9]] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
