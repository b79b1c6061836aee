//! Patterns as in `KEYS`: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before a character to take it as it is.

/// Whether the whole of a text matches. Time is at most the product of both lengths: a `*` that fails is taken up again
/// only at the last one.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if t < text.len()
            && p < pattern.len()
            && let Some(next) = one(pattern, p, text[t])
        {
            (p, t) = (next, t + 1);
            continue;
        }
        match star {
            Some((after, from)) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether one character matches what stands at `p`; where the pattern goes on.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => set(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        same => (same == byte).then_some(p + 1),
    }
}

/// The set whose first character stands at `p`. One that is not closed ends with the pattern, as in Redis.
fn set(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern[p.min(pattern.len())..] {
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [] => break,
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                p += 3;
            }
            [same, ..] => {
                found |= same == byte;
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "hllo", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            (r"[\]]", "]", true),
            ("[abc", "b", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*a", "aaaab", false),
            ("**", "x", true),
            ("a\\", "a\\", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        assert!(!matches(
            &b"*a".repeat(500),
            &b"a".repeat(5_000).iter().copied().chain([b'b']).collect::<Vec<_>>()
        ));
    }
}
