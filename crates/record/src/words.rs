//! Words that agree with a number, for messages to people.

use std::fmt::Display;

/// A number with its noun: `1 copy`, `2 copies`, `0 partitions`. The noun is the regular singular.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// The first text for the number 1, and else the second, such as `is` and `are`.
pub fn by_number<N: PartialEq + From<u8>>(
    count: N,
    one: &'static str,
    several: &'static str,
) -> &'static str {
    if count == N::from(1) { one } else { several }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree_with_their_number() {
        assert_eq!([0_u32, 1, 2].map(|count| counted(count, "node")), ["0 nodes", "1 node", "2 nodes"]);
        assert_eq!([1_usize, 2].map(|count| counted(count, "copy")), ["1 copy", "2 copies"]);
        assert_eq!(
            (counted(3_u64, "key"), counted(2_u8, "process")),
            ("3 keys".into(), "2 processes".into())
        );
        assert_eq!(
            (counted(1.0, "trouble"), counted(2_u64, "batch")),
            ("1 trouble".into(), "2 batches".into())
        );
        assert_eq!([0_u64, 1, 2].map(|count| by_number(count, "is", "are")), ["are", "is", "are"]);
    }
}
