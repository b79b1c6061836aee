//! What a Rust text says about modules, outside of tests: the modules it declares, the names it imports, and
//! the paths it uses.
//!
//! This is not a parser. It reads words and punctuation, and knows `mod`, `use`, items, attributes and
//! paths that begin with `crate`, `super` or `self`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::source::split;

/// A path as its segments, such as `["super", "map", "ClusterMap"]`.
pub(super) type Segments = Vec<String>;

/// The part of a text that belongs to one module.
#[derive(Debug, Default)]
pub(super) struct ModuleText {
    /// Its child modules.
    pub children: BTreeMap<String, ChildModule>,
    /// Names that `use` binds, with the paths behind them.
    pub imports: BTreeMap<String, Segments>,
    /// The modules of `use module::*`.
    pub globs: Vec<Segments>,
    /// The items that the module defines itself.
    pub items: BTreeSet<String>,
    /// Paths in use, with their lines.
    pub paths: Vec<(Segments, usize)>,
    /// Every other word at the begin of a path, with its first line; a glob import may bind it.
    pub words: BTreeMap<String, usize>,
}

/// Where the text of a child module is.
#[derive(Debug)]
pub(super) enum ChildModule {
    /// In a file of its usual path.
    File,
    /// In the file of a `#[path]`, relative to the folder of this file.
    FileAt(String),
    /// Between braces, in this text.
    Inline(ModuleText),
}

#[derive(Clone, Copy, Debug)]
struct CodeToken<'t> {
    text: &'t str,
    line: usize,
    /// The byte where it begins.
    at: usize,
}

/// Reads the text of a file. A file under `#![cfg(test)]` says nothing.
pub(super) fn scan(text: &str) -> ModuleText {
    let code = split(text).code;
    let mut scanner = Scanner { text, tokens: tokens(&code), at: 0 };
    let mut module = ModuleText::default();
    scanner.module(&mut module);
    module
}

/// The words and punctuation of `code`, without lifetimes. `::` is one token.
fn tokens(code: &str) -> Vec<CodeToken<'_>> {
    let (mut tokens, mut line) = (Vec::new(), 1);
    let mut chars = code.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let mut end = at + c.len_utf8();
        if c == '\n' {
            line += 1;
        }
        if c.is_whitespace() {
            continue;
        }
        let is_lifetime = c == '\'';
        if is_word(c) || is_lifetime {
            while let Some((next, c)) = chars.next_if(|(_, c)| is_word(*c)) {
                end = next + c.len_utf8();
            }
        } else if c == ':' && chars.next_if(|(_, c)| *c == ':').is_some() {
            end += 1;
        }
        if !is_lifetime {
            tokens.push(CodeToken { text: &code[at..end], line, at });
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct Scanner<'t> {
    text: &'t str,
    tokens: Vec<CodeToken<'t>>,
    at: usize,
}

impl<'t> Scanner<'t> {
    /// The text of the token `ahead` of the present one; empty behind the last.
    fn peek(&self, ahead: usize) -> &'t str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    /// Reads up to the `}` that ends the module, or to the end of the text.
    fn module(&mut self, module: &mut ModuleText) {
        let (mut depth, mut file) = (0_usize, None);
        while self.at < self.tokens.len() {
            let (here, line) = (self.peek(0), self.line());
            let follows_path = self.at > 0 && matches!(self.tokens[self.at - 1].text, "::" | ".");
            match here {
                "#" => match self.attribute() {
                    Attribute::Test => self.skip_item(),
                    Attribute::TestOfModule => {
                        *module = ModuleText::default();
                        self.at = self.tokens.len();
                    }
                    Attribute::Path(path) => file = Some(path),
                    Attribute::Other => {}
                },
                "{" => (depth, self.at) = (depth + 1, self.at + 1),
                "}" if depth == 0 => break,
                "}" => (depth, self.at) = (depth - 1, self.at + 1),
                "mod" if is_name(self.peek(1)) => {
                    let name = self.peek(1).to_owned();
                    let opens = self.peek(2) == "{";
                    self.at += 3;
                    let child = if opens {
                        let mut child = ModuleText::default();
                        self.module(&mut child);
                        self.at += 1;
                        ChildModule::Inline(child)
                    } else {
                        file.take().map_or(ChildModule::File, ChildModule::FileAt)
                    };
                    module.children.insert(name, child);
                }
                "use" if self.peek(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&mut Vec::new(), module);
                }
                "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static"
                    if depth == 0 && is_name(self.peek(1)) =>
                {
                    let name = if self.peek(1) == "mut" { self.peek(2) } else { self.peek(1) };
                    module.items.insert(name.to_owned());
                    self.at += 1;
                }
                "crate" | "super" | "self" if !follows_path && self.peek(1) == "::" => {
                    let mut path = vec![here.to_owned()];
                    self.at += 1;
                    while self.peek(0) == "::" && is_name(self.peek(1)) {
                        path.push(self.peek(1).to_owned());
                        self.at += 2;
                    }
                    module.paths.push((path, line));
                }
                word => {
                    if is_name(word) && !follows_path {
                        module.words.entry(word.to_owned()).or_insert(line);
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// Reads one branch of a `use`, and the `;` or `,` behind it is left.
    fn use_tree(&mut self, before: &mut Segments, module: &mut ModuleText) {
        let (line, depth) = (self.line(), before.len());
        loop {
            match self.peek(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.use_tree(before, module);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                "*" => {
                    self.at += 1;
                    module.paths.push((before.clone(), line));
                    module.globs.push(before.clone());
                    break;
                }
                name if is_name(name) => {
                    self.at += 1;
                    if name != "self" || before.is_empty() {
                        before.push(name.to_owned());
                    }
                    if self.peek(0) == "::" {
                        continue;
                    }
                    let mut bound = before.last().cloned().unwrap_or_default();
                    if self.peek(0) == "as" {
                        bound = self.peek(1).to_owned();
                        self.at += 2;
                    }
                    module.paths.push((before.clone(), line));
                    if bound != "_" {
                        module.imports.insert(bound, before.clone());
                    }
                    break;
                }
                _ => {
                    self.at += 1; // not a path: a macro's pattern
                    break;
                }
            }
        }
        before.truncate(depth);
    }

    /// Reads an attribute from its `#`.
    fn attribute(&mut self) -> Attribute {
        self.at += 1;
        let is_inner = self.peek(0) == "!";
        if is_inner {
            self.at += 1;
        }
        if self.peek(0) != "[" {
            return Attribute::Other;
        }
        let first = self.at + 1;
        self.skip_group();
        let words: Vec<&str> =
            self.tokens[first.min(self.at)..self.at].iter().map(|token| token.text).collect();
        match (words.as_slice(), is_inner) {
            (["cfg", "(", rest @ ..], _) if needs_test(rest) => {
                if is_inner {
                    Attribute::TestOfModule
                } else {
                    Attribute::Test
                }
            }
            (["path", "=", ..], false) => {
                let from = self.tokens[first].at;
                self.text[from..]
                    .split('"')
                    .nth(1)
                    .map_or(Attribute::Other, |path| Attribute::Path(path.to_owned()))
            }
            _ => Attribute::Other,
        }
    }

    /// Skips a group from its opening bracket to behind its closing one.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
    }

    /// Skips the item, statement, field or match arm behind an attribute of tests.
    fn skip_item(&mut self) {
        while self.peek(0) == "#" {
            self.attribute();
        }
        let mut is_field = true;
        loop {
            match self.peek(0) {
                "" => break,
                ";" => break self.at += 1,
                "," if is_field => break self.at += 1,
                ")" | "]" | "}" => break,
                "{" => break self.skip_group(),
                "(" | "[" => self.skip_group(),
                "fn" | "struct" | "enum" | "union" | "trait" | "impl" | "type" | "const" | "static"
                | "mod" | "use" | "macro_rules" | "let" | "extern" => {
                    (is_field, self.at) = (false, self.at + 1)
                }
                _ => self.at += 1,
            }
        }
    }
}

enum Attribute {
    /// What follows is compiled for tests only.
    Test,
    /// The module around it is compiled for tests only.
    TestOfModule,
    /// The file of a module.
    Path(String),
    Other,
}

/// Whether a `cfg` with these words is true in tests only: `test` alone, or within `all`.
fn needs_test(words: &[&str]) -> bool {
    match words {
        ["test", ..] => true,
        ["all", "(", rest @ ..] => {
            let mut depth = 0_usize;
            rest.iter().any(|word| {
                match *word {
                    "(" => depth += 1,
                    ")" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && *word == "test"
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<(String, usize)> {
        scan(text).paths.iter().map(|(path, line)| (path.join("::"), *line)).collect()
    }

    #[track_caller]
    fn paths_are(text: &str, expected: &[(&str, usize)]) {
        let expected: Vec<(String, usize)> =
            expected.iter().map(|(path, line)| ((*path).to_owned(), *line)).collect();
        assert_eq!(paths(text), expected, "{text}");
    }

    #[test]
    fn branches_of_use_are_paths_with_their_lines() {
        paths_are(
            "use crate::a::{B, c::{self, D as E},\n    f::*};\npub(crate) use super::g as _;\n",
            &[
                ("crate::a::B", 1),
                ("crate::a::c", 1),
                ("crate::a::c::D", 1),
                ("crate::a::f", 2),
                ("super::g", 3),
            ],
        );
        let scanned = scan("use crate::a::{B, c::{self, D as E}, f::*};\nuse super::g as _;\n");
        assert_eq!(scanned.imports.keys().collect::<Vec<_>>(), ["B", "E", "c"]);
        assert_eq!(scanned.globs, [["crate", "a", "f"]]);
    }

    #[test]
    fn paths_inside_code_are_found() {
        paths_are(
            "fn f<'a>(x: &'a crate::a::B) -> Vec<super::C> {\n    self::d::e(x.self_, \"crate::no\") // crate::no\n}\n",
            &[("crate::a::B", 1), ("super::C", 1), ("self::d::e", 2)],
        );
        paths_are("fn f() -> impl Sized + use<> { g::<crate::a::B>() }", &[("crate::a::B", 1)]);
    }

    #[test]
    fn code_of_tests_is_not_counted() {
        paths_are("#![cfg(test)]\nuse crate::a;\n", &[]);
        paths_are(
            "#[cfg(test)]\n#[allow(unused)]\nmod tests {\n use crate::a;\n}\nuse crate::b;\n",
            &[("crate::b", 6)],
        );
        paths_are("#[cfg(all(test, unix))]\nuse crate::{a, c};\nuse crate::b;\n", &[("crate::b", 3)]);
        paths_are("#[cfg(any(test, unix))]\nuse crate::a;\n", &[("crate::a", 2)]);
        paths_are("#[cfg(not(test))]\nuse crate::a;\n", &[("crate::a", 2)]);
        paths_are("struct S {\n #[cfg(test)]\n a: crate::a::A,\n b: crate::b::B,\n}", &[("crate::b::B", 4)]);
        paths_are(
            "#[cfg(test)]\nfn f<A, B>(a: crate::a::A) -> [u8; 2] { g() }\nstatic B: crate::B = 1;",
            &[("crate::B", 3)],
        );
    }

    #[test]
    fn modules_and_items_are_found() {
        let scanned = scan(
            "pub mod a;\n#[path = \"x/b.rs\"]\nmod b;\nmod c {\n use super::D;\n mod e;\n}\n\
             pub struct D;\nimpl D { pub const fn g() {} const H: u8 = 1; }\nstatic mut I: u8 = 0;\n",
        );
        assert!(matches!(scanned.children["a"], ChildModule::File));
        assert!(matches!(&scanned.children["b"], ChildModule::FileAt(path) if path == "x/b.rs"));
        let ChildModule::Inline(c) = &scanned.children["c"] else { panic!("`c` is inline") };
        assert_eq!(c.paths.len(), 1);
        assert!(matches!(c.children["e"], ChildModule::File));
        assert_eq!(scanned.paths.len(), 0);
        assert_eq!(scanned.items.iter().collect::<Vec<_>>(), ["D", "I"]);
    }
}
