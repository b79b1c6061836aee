//! Patterns of `KEYS`: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before a literal character.
//!
//! The stars divide a pattern into runs. Each element of a run matches one byte, so the first and
//! the last run have fixed positions. Each run between two stars is searched once, after the run
//! before it. A text is therefore scanned once, whatever the pattern.

use crate::limits::PATTERN_BYTES_MAX;

/// A pattern, prepared for many texts.
#[derive(Debug)]
pub(crate) struct Glob {
    /// The run before the first star and the one after the last; without a star only the first.
    first: Vec<Element>,
    last: Option<Vec<Element>>,
    /// The runs between stars, none of them empty.
    between: Vec<Search>,
}

/// What one byte of a text must match.
#[derive(Clone, Copy, Debug)]
enum Element {
    Byte(u8),
    Any,
    /// A set of bytes, one bit for each.
    Set([u64; 4]),
}

impl Element {
    #[inline]
    fn matches_byte(&self, byte: u8) -> bool {
        match self {
            Element::Byte(same) => *same == byte,
            Element::Any => true,
            Element::Set(bits) => bits[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1,
        }
    }
}

/// How a run is searched.
#[derive(Debug)]
enum Search {
    /// A short run: compared at each position.
    Short(Vec<Element>),
    /// Bytes only, with the failure function of Knuth, Morris and Pratt.
    Bytes(Vec<u8>, Vec<u16>),
    /// Any elements, by the bit-parallel shift-and algorithm. `words`: length of a byte's mask.
    Bits { length: usize, words: usize, masks: Vec<u64> },
}

/// Runs of at most so many elements are compared at each position.
const SHORT_MAX: usize = 8;

impl Glob {
    /// Patterns have at most [`PATTERN_BYTES_MAX`] bytes; longer ones match nothing.
    pub(crate) fn new(pattern: &[u8]) -> Glob {
        let pattern = if pattern.len() > PATTERN_BYTES_MAX { b"[]" } else { pattern };
        let mut runs = vec![Vec::new()];
        let mut p = 0;
        while p < pattern.len() {
            if pattern[p] == b'*' {
                runs.push(Vec::new());
                p += 1;
            } else {
                let (element, next) = element(pattern, p);
                runs.last_mut().into_iter().for_each(|run| run.push(element));
                p = next;
            }
        }
        let mut runs = runs.into_iter();
        let first = runs.next().unwrap_or_default();
        let last = runs.next_back();
        let between = runs.filter(|run| !run.is_empty()).map(Search::of).collect();
        Glob { first, last, between }
    }

    /// Whether the whole text matches; the time is bounded by [`Glob::cost`].
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let at_once =
            |run: &[Element], part: &[u8]| run.iter().zip(part).all(|(one, byte)| one.matches_byte(*byte));
        let Some(last) = &self.last else {
            return text.len() == self.first.len() && at_once(&self.first, text);
        };
        let Some(end) = text.len().checked_sub(last.len()).filter(|end| *end >= self.first.len()) else {
            return false;
        };
        if !at_once(&self.first, text) || !at_once(last, &text[end..]) {
            return false;
        }
        let mut rest = &text[self.first.len()..end];
        self.between.iter().all(|run| match run.end_in(rest) {
            Some(end) => {
                rest = &rest[end..];
                true
            }
            None => false,
        })
    }

    /// Upper bound of the cost of a match of so many bytes, in units of about a nanosecond.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        let one = |run: &Search| match run {
            Search::Short(run) => run.len(),
            Search::Bytes(..) => 2,
            Search::Bits { words, .. } => 2 * words,
        };
        let ends = self.first.len() + self.last.as_ref().map_or(0, Vec::len);
        bytes * self.between.iter().map(one).max().unwrap_or(0) + ends.min(bytes) + FIXED_COST
    }
}

/// The fixed cost of a match.
const FIXED_COST: usize = 32;

impl Search {
    fn of(run: Vec<Element>) -> Search {
        if run.len() <= SHORT_MAX {
            return Search::Short(run);
        }
        let bytes = run.iter().map(|one| if let Element::Byte(byte) = one { Some(*byte) } else { None });
        if let Some(bytes) = bytes.collect::<Option<Vec<u8>>>() {
            let mut borders = vec![0_u16; bytes.len()];
            let mut matched = 0;
            for at in 1..bytes.len() {
                while matched > 0 && bytes[matched] != bytes[at] {
                    matched = usize::from(borders[matched - 1]);
                }
                matched += usize::from(bytes[matched] == bytes[at]);
                borders[at] = matched as u16;
            }
            return Search::Bytes(bytes, borders);
        }
        let words = run.len().div_ceil(64);
        let mut masks = vec![0; 256 * words];
        for (place, one) in run.iter().enumerate() {
            for byte in (0..=255_u8).filter(|byte| one.matches_byte(*byte)) {
                masks[usize::from(byte) * words + place / 64] |= 1 << (place % 64);
            }
        }
        Search::Bits { length: run.len(), words, masks }
    }

    /// The end of the first match of the run in a text.
    fn end_in(&self, text: &[u8]) -> Option<usize> {
        match self {
            Search::Short(run) => {
                let stands = |part: &[u8]| run.iter().zip(part).all(|(one, byte)| one.matches_byte(*byte));
                text.windows(run.len()).position(stands).map(|at| at + run.len())
            }
            Search::Bytes(run, borders) => {
                let mut matched = 0;
                text.iter().position(|byte| {
                    while matched > 0 && run[matched] != *byte {
                        matched = usize::from(borders[matched - 1]);
                    }
                    matched += usize::from(run[matched] == *byte);
                    matched == run.len()
                })
            }
            .map(|at| at + 1),
            Search::Bits { length, words, masks } => {
                let (mut bits, last) = (vec![0_u64; *words], 1 << ((length - 1) % 64));
                text.iter().position(|byte| {
                    let masks = &masks[usize::from(*byte) * words..][..*words];
                    let mut carried = 1;
                    for (word, mask) in bits.iter_mut().zip(masks) {
                        let next = *word >> 63;
                        *word = (*word << 1 | carried) & mask;
                        carried = next;
                    }
                    bits[words - 1] & last != 0
                })
            }
            .map(|at| at + 1),
        }
    }
}

/// The element at `p`, which is no star, and the position after it.
fn element(pattern: &[u8], p: usize) -> (Element, usize) {
    match pattern[p] {
        b'?' => (Element::Any, p + 1),
        b'[' => set(pattern, p + 1),
        b'\\' if p + 1 < pattern.len() => (Element::Byte(pattern[p + 1]), p + 2),
        same => (Element::Byte(same), p + 1),
    }
}

/// The set whose first character is at `p`. One that is not closed ends with the pattern, as in
/// Redis.
fn set(pattern: &[u8], mut p: usize) -> (Element, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut bits = [0_u64; 4];
    let mut add = |byte: u8| bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
    loop {
        match pattern[p.min(pattern.len())..] {
            [b'\\', escaped, ..] => {
                add(escaped);
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [] => break,
            [from, b'-', to, ..] => {
                (from.min(to)..=from.max(to)).for_each(&mut add);
                p += 3;
            }
            [same, ..] => {
                add(same);
                p += 1;
            }
        }
    }
    (Element::Set(if negated { bits.map(|word| !word) } else { bits }), p)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).matches(text)
    }

    /// The simple algorithm with backtracking, in time of both lengths multiplied.
    fn reference(pattern: &[u8], text: &[u8]) -> bool {
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
            if t < text.len() && p < pattern.len() {
                let (one, next) = element(pattern, p);
                if one.matches_byte(text[t]) {
                    (p, t) = (next, t + 1);
                    continue;
                }
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

    proptest! {
        #[test]
        fn texts_match_as_by_the_reference(
            pattern in prop::collection::vec(prop::sample::select(b"aaab?*[]^-\\".to_vec()), 0..100),
            text in prop::collection::vec(prop::sample::select(b"aaab".to_vec()), 0..300),
        ) {
            prop_assert_eq!(matches(&pattern, &text), reference(&pattern, &text));
        }

        #[test]
        fn glob_finds_long_runs_at_any_position(
            run in prop::collection::vec(prop::sample::select(b"aab?".to_vec()), 9..200),
            before in prop::collection::vec(prop::sample::select(b"ab".to_vec()), 0..300),
            behind in prop::collection::vec(prop::sample::select(b"ab".to_vec()), 0..30),
        ) {
            let inner: Vec<u8> = run.iter().map(|byte| if *byte == b'?' { b'b' } else { *byte }).collect();
            let text = [&before[..], &inner, &behind].concat();
            let pattern = [b"*", &run[..], b"*"].concat();
            prop_assert!(matches(&pattern, &text));
            let bytes: Vec<u8> = run.iter().map(|byte| if *byte == b'?' { b'a' } else { *byte }).collect();
            let pattern = [b"*", &bytes[..], b"*b"].concat();
            prop_assert_eq!(matches(&pattern, &text), reference(&pattern, &text));
        }
    }

    #[test]
    fn the_cost_of_a_match_is_far_below_the_product_of_both_lengths() {
        let text = vec![b'a'; 65_000];
        for pattern in [
            [b"*", &b"a".repeat(1000)[..], b"b"].concat(),
            [b"*", &b"a".repeat(1000)[..], b"b*"].concat(),
            [b"*", &b"?".repeat(1000)[..], b"b*"].concat(),
            b"*a".repeat(500),
            [&b"*[ab]".repeat(200)[..], b"c*"].concat(),
        ] {
            let glob = Glob::new(&pattern);
            glob.matches(&text);
            assert!(glob.cost(text.len()) <= 64_000 + 33 * text.len(), "{}", pattern.escape_ascii());
        }
    }

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
