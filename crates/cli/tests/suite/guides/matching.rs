//! Compares the output with the guide.

/// The least hexadecimal digits of a checksum, a key or a token, which differ from run to run.
const HEXADECIMAL_MIN: usize = 8;

/// Whether the output matches the guide. Numbers may differ; `…` in a line matches anything, and as
/// a line of its own any lines.
pub(crate) fn matches_guide(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=printed.len()).any(|skipped| matches_guide(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed.split_first().is_some_and(|(first, others)| {
            is_line(&plain(line), &plain(first)) && matches_guide(rest, others)
        }),
    }
}

fn is_line(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    if !expected.contains('…') {
        return rest.is_empty();
    }
    let parts: Vec<&str> = parts.collect();
    let (last, middle) = parts.split_last().unwrap();
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A line with every number replaced by `#`, and without trailing blanks.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        let is_checksum = word.len() >= HEXADECIMAL_MIN
            && word.chars().all(|c| c.is_ascii_hexdigit())
            && word.contains(|c: char| c.is_ascii_digit());
        if is_checksum {
            plain.push('#');
            continue;
        }
        let mut is_in_number = false;
        for c in word.chars() {
            if !c.is_ascii_digit() {
                plain.push(c);
            } else if !is_in_number {
                plain.push('#');
            }
            is_in_number = c.is_ascii_digit();
        }
    }
    plain
}

#[test]
fn numbers_may_differ_and_words_may_not() {
    let matches = |expected: &str, printed: &str| {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        matches_guide(&lines(expected), &lines(printed))
    };
    assert!(matches("node 1 (process 4711)", "node 1 (process 99)"));
    assert!(matches("5f0c2a9e41b7d386 robot", "0011223344556677 robot"));
    assert!(!matches("blue", "red"));
    assert!(!matches("blue", "blue\nred"));
    assert!(!matches("blue\nred", "blue"));
    assert!(matches("a … c", "a b b c"));
    assert!(!matches("a … c", "a b b d"));
    assert!(matches("first\n…\nlast", "first\nx\ny\nlast"));
    assert!(!matches("first\n…\nlast", "first\nx\ny"));
}
