//! Keys in JSON, which has only text.

use serde_json::{Value, json};

/// An object with the key in `key`, or in `key_base64` if it is not UTF-8.
pub(super) fn json_key(key: &[u8]) -> Value {
    match std::str::from_utf8(key) {
        Ok(text) => json!({ "key": text }),
        Err(_) => json!({ "key_base64": base64(key) }),
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().zip([16, 8, 0]).fold(0, |bits, (byte, shift)| bits | u32::from(*byte) << shift);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[value]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_no_text_are_base64() {
        assert_eq!(json_key(b"m"), json!({ "key": "m" }));
        for (key, text) in
            [(&b"\xff"[..], "/w=="), (b"\xff\xff", "//8="), (b"\xff\\a", "/1xh"), (b"\xffabc", "/2FiYw==")]
        {
            assert_eq!(json_key(key), json!({ "key_base64": text }));
        }
    }
}
