//! The tags of a bucket as the bytes of a setting.

use zerohop_base::bytes::Reader;
use zerohop_objects::Pairs;

/// The setting of a bucket.
pub(crate) const SETTING: &str = "tags";
/// The format of the setting.
const FORMAT: u8 = 1;

/// The bytes of the setting.
pub(crate) fn encode(tags: &Pairs) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    for text in tags.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// The tags that the setting has.
pub(crate) fn decode(bytes: &[u8]) -> Option<Pairs> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != FORMAT {
        return None;
    }
    let mut tags = Pairs::new();
    while !reader.is_at_end() {
        let mut text = || {
            let length = reader.u32()? as usize;
            String::from_utf8(reader.bytes(length)?.to_vec()).ok()
        };
        tags.push((text()?, text()?));
    }
    Some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_back_and_torn_ones_refused() {
        let tags = vec![("team".to_owned(), "ä b".to_owned()), ("empty".to_owned(), String::new())];
        let bytes = encode(&tags);
        assert_eq!(decode(&bytes), Some(tags));
        assert_eq!(decode(&bytes[..1]), Some(Pairs::new()));
        for end in [0, 2, 5, 8, 12, bytes.len() - 1] {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(decode(&[2]), None);
        assert_eq!(decode(&[1, 1, 0, 0, 0, 0xFF, 0, 0, 0, 0]), None);
    }
}
