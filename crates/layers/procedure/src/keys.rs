//! Keys and ranges of keys.

/// A key.
pub type RecordKey = Vec<u8>;

/// The first key above all keys that begin with `prefix`, which is not all FF.
#[must_use]
pub fn end_of(prefix: &[u8]) -> RecordKey {
    let mut end = prefix.to_vec();
    while end.last() == Some(&0xff) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The first key above `key`.
#[must_use]
pub fn after(key: &[u8]) -> RecordKey {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::{after, end_of};

    #[test]
    fn end_of_a_prefix_is_above_all_its_keys_and_nothing_is_between_a_key_and_the_next() {
        assert_eq!(end_of(b"a\xff\xff"), b"b");
        assert!(end_of(b"ab") > b"ab\xff\xff\xff".to_vec());
        assert_eq!(after(b"ab"), b"ab\0");
    }
}
