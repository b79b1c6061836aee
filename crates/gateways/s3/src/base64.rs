//! Base64 with padding, as headers and tokens have it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place)) as usize & 63;
            text.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    text
}

/// The bytes of a text, which must be the only one that [`encode`] makes of them.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            let sextet = ALPHABET.iter().position(|one| one == digit)?;
            word = word << 6 | u32::try_from(sextet).ok()?;
        }
        word <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len().max(1)]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn texts_are_those_of_the_standard_and_others_are_refused() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9v=", "Z*9v", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
