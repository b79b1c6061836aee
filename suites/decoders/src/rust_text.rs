//! Splitting Rust text into code and comments: any text is accepted, nothing moves, and nothing is in both.

use xtask::tidy::source::{has_word, split};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let split = split(text);
    assert_eq!(split.code.len(), text.len(), "columns moved in the code");
    assert_eq!(split.comments.len(), text.len(), "columns moved in the comments");
    for ((original, code), comment) in text.bytes().zip(split.code.bytes()).zip(split.comments.bytes()) {
        assert!(code == original || code == b' ', "code that was not there");
        assert!(comment == original || comment == b' ', "a comment that was not there");
        assert!(original == b'\n' || code == b' ' || comment == b' ', "a byte in both halves");
    }
    for word in text.split_whitespace().take(4) {
        assert!(
            has_word(text, word)
                || !word.is_ascii()
                || !word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        );
    }
}
