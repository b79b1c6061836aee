//! An estimate of how hard a text is to guess: repetitions, sequences of neighbouring characters and words count little.
//!
//! An eavesdropper can use the server's proof to test guesses offline, so a secret must be stronger than what people usually invent.

/// Minimum strength in bits; weaker texts are refused. By this estimate 32 random hexadecimal digits have about 110, and 64 about 220.
pub(super) const GUESS_BITS_MIN: u32 = 70;

/// Minimum number of consecutive letters of one case that count as a word, and the minimum length of a repetition.
const WORD_LETTERS_MIN: usize = 4;

/// Strength of a letter in a word, in tenths of a bit: English has one to two bits.
const WORD_LETTER: u32 = 15;

/// Separators between words.
const PARTS_WORDS: &[u8] = b" -_.,;:!";

/// Strength of a character that repeats or continues what was before it, in tenths of a bit.
const REPEATED: u32 = 2;

/// The number of bits to guess for an attacker who knows how people invent secrets.
pub(super) fn guess_bits(text: &[u8]) -> u32 {
    let usual = bits_per_character(text);
    let (mut tenths, mut at) = (0, 0);
    while at < text.len() {
        let (step, each) = match (repeated(text, at), word_letters(text, at)) {
            (0, 0) if PARTS_WORDS.contains(&text[at]) => (1, usual.min(WORD_LETTER)),
            (0, 0) => (1, usual),
            (0, letters) => (letters, usual.min(WORD_LETTER)),
            (repeats, _) => (repeats, usual.min(REPEATED)),
        };
        tenths += each * step as u32;
        at += step;
    }
    tenths / 10
}

/// Strength of a character from the frequencies of all characters, in tenths of a bit.
fn bits_per_character(text: &[u8]) -> u32 {
    let mut counts = [0_u32; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let all = text.len() as f64;
    let of = |count: u32| f64::from(count) / all * (all / f64::from(count)).log2();
    let bits: f64 = counts.into_iter().filter(|count| *count > 0).map(of).sum();
    (bits * 10.0) as u32
}

/// Number of characters from `at` on that repeat an earlier sequence, or that are neighbours of each other, as in `4567` and `zzzz`.
fn repeated(text: &[u8], at: usize) -> usize {
    let here = &text[at..];
    let same = |before: usize| here.iter().zip(&text[before..]).take_while(|(one, two)| one == two).count();
    let again = (0..at).map(same).max().unwrap_or(0);
    let step = here.get(1).map(|second| second.wrapping_sub(here[0]));
    let is_row = matches!(step, Some(0 | 1 | u8::MAX));
    let row = here.windows(2).take_while(|pair| Some(pair[1].wrapping_sub(pair[0])) == step).count() + 1;
    let row = if is_row { row } else { 0 };
    let longest = again.max(row);
    if longest >= WORD_LETTERS_MIN { longest } else { 0 }
}

/// Number of letters of one case from `at` on, if they are as many as a word has, or are separated from the rest.
fn word_letters(text: &[u8], at: usize) -> usize {
    let of = |is_letter: fn(&u8) -> bool| text[at..].iter().take_while(|byte| is_letter(byte)).count();
    let letters = of(u8::is_ascii_lowercase).max(of(u8::is_ascii_uppercase));
    let parts = |byte: Option<&u8>| byte.is_none_or(|byte| PARTS_WORDS.contains(byte));
    let stands_alone = parts(at.checked_sub(1).map(|before| &text[before])) && parts(text.get(at + letters));
    if letters >= WORD_LETTERS_MIN || stands_alone { letters } else { 0 }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn random(n: u32) -> [u8; 32] {
        Sha256::digest(n.to_le_bytes()).into()
    }

    #[test]
    fn guessable_secrets_are_refused() {
        for text in [
            "00000000000000000000000000000000",
            "0123456789abcdef0123456789abcdef0123456789abcdef",
            "passwordpasswordpasswordpassword",
            "correct horse battery staple, correct horse",
            "change-me-change-me-change-me-change-me",
            "this is the secret of our cluster in the lab",
            "abcdefghijklmnopqrstuvwxyz0123456789",
            "qwertyuiopasdfghjklzxcvbnm1234567890",
            "the quick brown fox jumps over the lazy dog",
        ] {
            assert!(guess_bits(text.as_bytes()) < GUESS_BITS_MIN, "{text}: {}", guess_bits(text.as_bytes()));
        }
    }

    #[test]
    fn random_secret_is_accepted() {
        const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for n in 0..20_000 {
            let bytes = random(n);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let base64: Vec<u8> = bytes.iter().map(|byte| BASE64[usize::from(byte % 64)]).collect();
            for text in [hex.as_bytes(), &hex.as_bytes()[..32], &base64, &bytes] {
                let bits = guess_bits(text);
                assert!(bits >= GUESS_BITS_MIN, "{}: {bits}", String::from_utf8_lossy(text));
            }
        }
    }
}
