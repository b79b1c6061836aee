//! Tokens: the workload's values, so that every value that is read identifies its write.

/// The byte that extends a value beyond its tokens.
pub const FILLER: u8 = b'.';

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 12;

/// The token of a call; it is unique.
#[must_use]
pub fn token(call: u64) -> Vec<u8> {
    format!("<{call:010}>").into_bytes()
}

/// The tokens in a value; none if it has another form.
#[must_use]
pub fn tokens_of(value: &[u8]) -> Vec<Vec<u8>> {
    let starts = (0..value.len()).filter(|at| value[*at] == b'<');
    let windows = starts.filter_map(|at| value.get(at..at + TOKEN_BYTES));
    windows.filter(|window| is_token(window)).map(<[u8]>::to_vec).collect()
}

/// Whether a value has a form that the workload writes to this key: a decimal number, tokens and
/// filler in sequence, or, in keys with bit operations, any bytes.
#[must_use]
pub fn is_known_form(key: &[u8], value: &[u8]) -> bool {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    let mut rest = &value[digits..];
    while let [first, after @ ..] = rest {
        rest = match rest.get(..TOKEN_BYTES) {
            _ if *first == FILLER => after,
            Some(token) if is_token(token) => &rest[TOKEN_BYTES..],
            _ => break,
        };
    }
    rest.is_empty() || key.starts_with(BITS_PREFIX)
}

/// Bytes for display, long ones shortened.
#[must_use]
pub fn display_bytes(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 120;
    match bytes.get(..SHOWN_BYTES) {
        Some(first) => format!("{}.. ({} bytes)", String::from_utf8_lossy(first), bytes.len()),
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Prefix of keys with bit operations.
pub const BITS_PREFIX: &[u8] = b"bits";

fn is_token(bytes: &[u8]) -> bool {
    matches!(bytes, [b'<', digits @ .., b'>'] if bytes.len() == TOKEN_BYTES && digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_only_in_values_made_of_them() {
        let value = [token(7), token(123)].concat();
        assert_eq!(tokens_of(&value), [token(7), token(123)]);
        assert_eq!(tokens_of(&value[1..]), [token(123)]);
        assert_eq!(tokens_of(b"-123456789012"), Vec::<Vec<u8>>::new());
        assert!(
            is_known_form(b"k", &[b"-12", &value[..]].concat())
                && is_known_form(b"k", b"-12")
                && is_known_form(b"k", b"")
        );
        assert!(is_known_form(b"k", &[&value[..], b"...."].concat()));
        assert!(!is_known_form(b"k", &value[1..]) && is_known_form(b"bits-1", b"\x80"));
    }
}
