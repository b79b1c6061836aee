//! A type has one idea: its methods fit in a few files, and its fields on one screen. A larger one is
//! split into parts that own their fields, with methods of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{crate_folder, defined};
use super::source::{has_word, split};
use super::{Tree, Violation};

/// Larger types, each with its counts, which may only shrink.
const EXCEPTIONS: &str = "tidy/large_types.toml";

/// The most files of one crate with inherent `impl` blocks of one type.
const FILES_MAX: usize = 3;

/// The most named fields of a struct.
const FIELDS_MAX: usize = 15;

/// What is counted: a key of [`EXCEPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TypeMeasure {
    /// Files with inherent `impl` blocks.
    Files,
    /// Named fields.
    Fields,
}

/// A count of one type, and where to report it.
#[derive(Debug)]
struct TypeCount<'t> {
    count: usize,
    path: &'t str,
    line: usize,
}

/// Counts by crate, type and measure.
type TypeCounts<'t> = BTreeMap<(&'t str, String, TypeMeasure), TypeCount<'t>>;

impl TypeMeasure {
    fn of_key(key: &str) -> Option<Self> {
        match key {
            "files" => Some(Self::Files),
            "fields" => Some(Self::Fields),
            _ => None,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Fields => "fields",
        }
    }

    /// The count up to which a type needs no exception.
    fn limit(self) -> usize {
        match self {
            Self::Files => FILES_MAX,
            Self::Fields => FIELDS_MAX,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Files => "files with `impl` blocks",
            Self::Fields => "fields",
        }
    }
}

/// Checks the size of every type.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let counts = measure(tree);
    let mut excepted = exceptions(tree, &mut violations);
    for ((crate_folder, name, measure), TypeCount { count, path, line }) in &counts {
        let (max, noun, key) = (measure.limit(), measure.noun(), measure.key());
        let listed = excepted.remove(&((*crate_folder).to_owned(), name.clone(), *measure));
        let what = match listed {
            None if *count > max => {
                format!(
                    "`{name}` has {count} {noun}, more than {max}: split it into parts that own their fields, \
                     with methods of their own"
                )
            }
            Some(listed) if *count > listed => {
                format!(
                    "`{name}` has {count} {noun}, and {EXCEPTIONS} lists {listed}: move what is new to a part \
                     of it; the count may only shrink"
                )
            }
            Some(_) if *count <= max => {
                format!("`{name}` has only {count} {noun}: take `{key}` out of {EXCEPTIONS}")
            }
            Some(listed) if *count < listed => {
                format!(
                    "`{name}` has {count} {noun} instead of {listed}: write {key} = {count} in {EXCEPTIONS}"
                )
            }
            _ => continue,
        };
        violations.push(Violation::new(path, *line, what));
    }
    for (crate_folder, name, measure) in excepted.into_keys() {
        let what = format!("{crate_folder} has no `{name}` with {}: take it out", measure.noun());
        violations.push(Violation::new(EXCEPTIONS, 0, what));
    }
    violations
}

/// The counts of all types.
fn measure(tree: &Tree) -> TypeCounts<'_> {
    let mut counts = TypeCounts::new();
    for (path, text) in tree.rust() {
        let code = split(text).code;
        let mut implemented = BTreeSet::new();
        let mut start = 0;
        for (number, line) in code.split_inclusive('\n').enumerate() {
            let here = &code[start..];
            start += line.len();
            if let Some(name) = implemented_by(here)
                && implemented.insert(name)
            {
                let found = TypeCount { count: 0, path, line: number + 1 };
                let key = (crate_folder(path), name.to_owned(), TypeMeasure::Files);
                counts.entry(key).or_insert(found).count += 1;
            }
            if let Some((name, fields)) = struct_fields(here, line) {
                let found = TypeCount { count: fields, path, line: number + 1 };
                counts.insert((crate_folder(path), name.to_owned(), TypeMeasure::Fields), found);
            }
        }
    }
    counts
}

/// The counts in the list of exceptions.
fn exceptions(
    tree: &Tree,
    violations: &mut Vec<Violation>,
) -> BTreeMap<(String, String, TypeMeasure), usize> {
    type ExceptionTables = BTreeMap<String, BTreeMap<String, BTreeMap<String, usize>>>;
    let Some(text) = tree.text(EXCEPTIONS) else { return BTreeMap::new() };
    let listed: ExceptionTables = toml::from_str(text).unwrap_or_else(|error| {
        violations.push(Violation::new(EXCEPTIONS, 0, format!("it cannot be read: {error}")));
        ExceptionTables::new()
    });
    let mut counts = BTreeMap::new();
    for (crate_folder, types) in listed {
        for (name, measures) in types {
            for (key, count) in measures {
                match TypeMeasure::of_key(&key) {
                    Some(measure) => {
                        counts.insert((crate_folder.clone(), name.clone(), measure), count);
                    }
                    None => {
                        let what = format!("`{key}` of `{name}` is neither `files` nor `fields`");
                        violations.push(Violation::new(EXCEPTIONS, 0, what));
                    }
                }
            }
        }
    }
    counts
}

/// The type of the inherent `impl` block that begins in the first line of `code`.
fn implemented_by(code: &str) -> Option<&str> {
    let rest = code.trim_start_matches(' ').strip_prefix("impl")?;
    let header = rest.split(['{', ';']).next()?;
    let header = after_generics(header)?.trim_start();
    let end = header.match_indices("where").find(|(at, _)| starts_word(header, *at, "where"));
    let header = &header[..end.map_or(header.len(), |(at, _)| at)];
    if has_word(header, "for") {
        return None;
    }
    let path = header.split('<').next()?.trim();
    let name = path.rsplit("::").next()?;
    (name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric)).then_some(name)
}

/// Whether `word` at `at` of `text` is a word of its own.
fn starts_word(text: &str, at: usize, word: &str) -> bool {
    let before = text[..at].chars().next_back();
    let after = text[at + word.len()..].chars().next();
    before.is_none_or(char::is_whitespace) && after.is_none_or(char::is_whitespace)
}

/// The struct with named fields that `line`, the first of `code`, defines, and their number.
fn struct_fields<'c>(code: &'c str, line: &str) -> Option<(&'c str, usize)> {
    let name = defined(line).filter(|_| has_word(line, "struct"))?;
    let at = line.find(&format!("struct {name}"))? + "struct ".len();
    let name = &code[at..at + name.len()];
    let rest = after_generics(&code[at + name.len()..])?;
    if rest.trim_start().starts_with(['(', ';']) {
        return None;
    }
    let body = &rest[rest.find('{')? + 1..];
    let (mut depth, mut fields, mut before) = (0_usize, 0, ' ');
    let mut is_field = false;
    for c in body.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            '}' if depth == 0 => break,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => is_field = true,
            ',' if depth == 0 => fields += usize::from(std::mem::take(&mut is_field)),
            _ => {}
        }
        before = c;
    }
    Some((name, fields + usize::from(is_field)))
}

/// The text after the generic parameters at the start of `code`, or all of it if it has none.
/// `None`: they do not end, or `code` continues a word.
fn after_generics(code: &str) -> Option<&str> {
    if !code.starts_with('<') {
        let continues = code.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        return (!continues).then_some(code);
    }
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&code[at + 1..]);
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of one type in so many files, with so many fields and this list of exceptions.
    fn violations(files: usize, fields: usize, listed: &str) -> Vec<String> {
        let fields: String = (0..fields).map(|number| format!("    f{number}: u8,\n")).collect();
        let mut texts = vec![("crates/a/src/lib.rs".to_owned(), format!("pub struct Big {{\n{fields}}}\n"))];
        texts.extend((0..files).map(|number| (format!("crates/a/src/m{number}.rs"), "impl Big {}\n".into())));
        texts.push((EXCEPTIONS.to_owned(), listed.to_owned()));
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&Tree::of(&texts)).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_type_in_many_files_or_of_many_fields_is_refused() {
        assert_eq!(violations(FILES_MAX, FIELDS_MAX, ""), [""; 0]);
        let of_files = violations(FILES_MAX + 1, FIELDS_MAX, "");
        assert_eq!(of_files.len(), 1);
        assert!(of_files[0].starts_with("crates/a/src/m0.rs:1: `Big` has 4 files"), "{of_files:?}");
        let of_fields = violations(FILES_MAX, FIELDS_MAX + 1, "");
        assert_eq!(of_fields.len(), 1);
        assert!(of_fields[0].starts_with("crates/a/src/lib.rs:1: `Big` has 16 fields"), "{of_fields:?}");
    }

    #[test]
    fn an_excepted_count_may_only_shrink_and_the_list_follows_it() {
        let listed = "[\"crates/a\"]\nBig = { files = 6, fields = 20 }\n";
        assert_eq!(violations(6, 20, listed), [""; 0]);
        for (files, fields, mark) in [
            (7, 20, "may only shrink"),
            (6, 21, "may only shrink"),
            (5, 20, "write files = 5"),
            (6, 19, "write fields = 19"),
            (FILES_MAX, 20, "take `files` out"),
            (6, FIELDS_MAX, "take `fields` out"),
            (0, 20, "take it out"),
        ] {
            let found = violations(files, fields, listed);
            assert!(found.len() == 1 && found[0].contains(mark), "no {mark} in {found:?}");
        }
        let unknown = violations(1, 1, "[\"crates/a\"]\nBig = { methods = 9 }\n");
        assert!(unknown.len() == 1 && unknown[0].contains("neither"), "{unknown:?}");
        assert_eq!(violations(1, 1, "Big = 9\n").len(), 1);
    }

    #[test]
    fn only_inherent_blocks_count_each_file_once_and_each_crate_alone() {
        for code in [
            "impl Big {",
            "    impl<T: Fn(u8) -> u8, const N: usize> super::Big<T, N>\nwhere\n    T: for<'a> A<'a>,\n{",
            "impl Big<'_> where u8: Copy {",
        ] {
            assert_eq!(implemented_by(code), Some("Big"), "{code}");
        }
        for code in
            ["impl Clone for Big {", "impl<T> A<T>\n    for Big<T> {", "implements Big {", "impl $name {"]
        {
            assert_eq!(implemented_by(code), None, "{code}");
        }
        let text = "// impl Other {}\nimpl Big {}\nimpl Big {}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text), ("crates/b/src/lib.rs", text)]);
        let counts: Vec<usize> = measure(&tree).into_values().map(|found| found.count).collect();
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn fields_are_counted_whatever_their_types() {
        for (code, fields) in [
            ("struct Big {}", Some(0)),
            ("struct Big { a: u8 }", Some(1)),
            (
                "pub(crate) struct Big<F: Fn(u8) -> u8>\nwhere\n    F: Copy,\n{\n    #[a(b, c)]\n    pub a: Map<u8, (F, F)>,\n    b: [u8; 3],\n    c: fn(u8, u8) -> Vec<u8>,\n}\nstruct Next { d: u8 }",
                Some(3),
            ),
            ("struct Big(u8, u8);", None),
            ("struct Big;", None),
            ("enum Big { A { a: u8 } }", None),
        ] {
            let line = code.lines().next().unwrap_or_default();
            assert_eq!(struct_fields(code, line), fields.map(|fields| ("Big", fields)), "{code}");
        }
    }
}
