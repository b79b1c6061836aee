//! Compares the tables of `docs/formats` with the bytes that the code writes. Test modules of the other crates that own a
//! format include this file by its path.
//!
//! A test encodes a value whose fields all differ, and names for each row of a table the bytes that the field has there.
//! Every table of the document, every row and every field must be matched. Then each number of the tables is changed and each
//! row left out, once: a comparison that does not notice fails.

#![allow(dead_code, reason = "no crate has every form of table")]

/// A field of a format, in the words of the document.
pub(crate) struct Field {
    /// Words that the row has.
    fields: String,
    bytes: Vec<u8>,
    /// In a list: whether its length stands behind it.
    is_sized: bool,
    /// How many of the stated length.
    count: usize,
}

/// A field of which the document states the length.
pub(crate) fn field(words: &str, bytes: impl AsRef<[u8]>) -> Field {
    Field { fields: words.to_owned(), bytes: bytes.as_ref().to_vec(), is_sized: true, count: 1 }
}

/// A field that is as long as other fields state, or as there are bytes; in a table also one that may look like another.
pub(crate) fn open(words: &str, bytes: impl AsRef<[u8]>) -> Field {
    Field { is_sized: false, ..field(words, bytes) }
}

/// A row of several fields, of which the document states the length of each.
pub(crate) fn each(count: usize, words: &str, bytes: impl AsRef<[u8]>) -> Field {
    Field { count, ..field(words, bytes) }
}

struct Table<'a> {
    /// Its heading, ` / `, and the head of its first column.
    title: String,
    head: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
    is_compared: bool,
}

/// A document, and where it differs from the code.
pub(crate) struct Document<'a> {
    tables: Vec<Table<'a>>,
    paragraphs: Vec<String>,
    differences: Vec<String>,
}

/// Compares a document with the code, and checks that the comparison notices wrong documents.
pub(crate) fn check(text: &str, compare: impl Fn(&mut Document<'_>)) {
    check_tables(text, |_| true, compare);
}

/// The same of the tables of offsets, and of those of fields behind others, in a document that has other tables too.
pub(crate) fn check_offsets(text: &str, compare: impl Fn(&mut Document<'_>)) {
    let is_checked = |head: &[&str]| {
        head[0].starts_with("offset") || head.iter().any(|one| one.starts_with("fields behind"))
    };
    check_tables(text, is_checked, compare);
}

fn check_tables(text: &str, is_checked: fn(&[&str]) -> bool, compare: impl Fn(&mut Document<'_>)) {
    let differences = |text: &str| {
        let mut document = Document::new(text);
        compare(&mut document);
        let left = document.tables.iter().filter(|table| !table.is_compared && is_checked(&table.head));
        let left = left.map(|table| format!("table \"{}\" is compared with nothing", table.title));
        let left: Vec<String> = left.collect();
        [document.differences, left].concat()
    };
    let found = differences(text);
    assert!(found.is_empty(), "the document and the code differ:\n{}", found.join("\n"));
    let altered = altered(text, is_checked);
    assert!(altered.len() > 10, "the document has no numbers to change");
    for (line, altered) in altered {
        assert!(!differences(&altered).is_empty(), "nothing notices that the document says: {line}");
    }
}

/// Checks that the tables of offsets in a source's comments are tables of the document, as far as places go.
pub(crate) fn check_comments(text: &str, source: &str) {
    let comments: Vec<&str> =
        source.lines().filter_map(|line| line.trim_start().strip_prefix("//!")).collect();
    let comments = comments.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let (document, comments) = (Document::new(text), Document::new(&comments));
    let places = |table: &Table<'_>| table.rows.iter().map(|row| row[..2].join("|")).collect::<Vec<_>>();
    let known: Vec<Vec<String>> = document.tables.iter().map(places).collect();
    let of_places = comments.tables.iter().filter(|table| table.head[0] == "offset");
    let of_places: Vec<Vec<String>> = of_places.map(places).collect();
    assert!(!of_places.is_empty(), "the source has no table of offsets");
    for table in of_places {
        assert!(
            known.contains(&table),
            "the document has no table with these offsets and lengths: {table:?}"
        );
    }
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Document<'a> {
        let mut tables: Vec<Table<'a>> = Vec::new();
        let (mut heading, mut is_in_table, mut is_fenced) = ("", false, false);
        for line in text.lines() {
            is_fenced ^= line.starts_with("```");
            if let Some(title) = line.strip_prefix('#').filter(|_| !is_fenced) {
                heading = title.trim_start_matches('#').trim();
            }
            let was_in_table = std::mem::replace(&mut is_in_table, line.starts_with('|') && !is_fenced);
            match tables.last_mut().filter(|_| was_in_table) {
                _ if !is_in_table => {}
                Some(table) if line.contains("---") => table.rows.clear(),
                Some(table) => table.rows.push(cells(line)),
                None => {
                    let head = cells(line);
                    let mut title = format!("{heading} / {}", head[0]);
                    if tables.iter().any(|table| table.title == title) {
                        title.push_str(", second");
                    }
                    tables.push(Table { title, head, rows: Vec::new(), is_compared: false });
                }
            }
        }
        let paragraphs = text.split("\n\n").map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "));
        Document { tables, paragraphs: paragraphs.collect(), differences: Vec::new() }
    }

    fn differ(&mut self, place: &str, what: &str) {
        self.differences.push(format!("{place}: {what}"));
    }

    /// The head and the rows of a table.
    fn table(&mut self, title: &str) -> (Vec<&'a str>, Vec<Vec<&'a str>>) {
        if let Some(table) = self.tables.iter_mut().find(|table| table.title == title) {
            table.is_compared = true;
            return (table.head.clone(), table.rows.clone());
        }
        let titles: Vec<&str> = self.tables.iter().map(|table| table.title.as_str()).collect();
        self.differences.push(format!("no table \"{title}\" among {titles:?}"));
        Default::default()
    }

    /// Compares a table of offsets, lengths and fields with bytes: a field for each row. `letters` are what offsets and lengths
    /// of the table refer to.
    pub(crate) fn layout(&mut self, title: &str, letters: &[(&str, usize)], bytes: &[u8], fields: &[Field]) {
        let (head, rows) = self.table(title);
        let column = |names: &[&str]| head.iter().position(|head| names.contains(head));
        let (offset, size) = (column(&["offset"]), column(&["bytes", "size"]));
        if rows.len() != fields.len() {
            self.differ(title, &format!("{} rows for {} fields", rows.len(), fields.len()));
        }
        let mut at = 0;
        for (row, field) in rows.iter().zip(fields) {
            let length = field.bytes.len();
            let place = format!("{title}, row {row:?}");
            if !row.iter().any(|cell| cell.contains(&field.fields)) {
                self.differ(&place, &format!("\"{}\" is expected here", field.fields));
            }
            let stated = offset.map_or("", |column| row[column]);
            if !stated.is_empty() && value(stated, letters) != Some(at) {
                self.differ(&place, &format!("the field is at {at}"));
            }
            let stated = size.map_or("", |column| row[column]);
            if !stated.is_empty() && !has_length(stated, letters, field) {
                self.differ(&place, &format!("the field has {length} bytes"));
            }
            if bytes.get(at..at + length) != Some(&field.bytes[..]) {
                self.differ(&place, "the code writes other bytes here");
            }
            at += length;
        }
        if at != bytes.len() {
            self.differ(title, &format!("the code writes {} bytes, the fields have {at}", bytes.len()));
        }
        for (n, one) in fields.iter().enumerate() {
            let is_like = |other: &&Field| {
                other.is_sized
                    && one.is_sized
                    && other.bytes == one.bytes
                    && one.bytes.iter().any(|byte| *byte > 0)
            };
            if let Some(other) = fields[..n].iter().find(is_like) {
                self.differ(title, &format!("the test cannot tell {} from {}", one.fields, other.fields));
            }
        }
    }

    /// Compares a table of numbers with all those that the code knows, each with words of its row.
    pub(crate) fn numbers(&mut self, title: &str, known: &[(u64, &str)]) {
        let (_, rows) = self.table(title);
        if rows.len() != known.len() {
            self.differ(title, &format!("{} rows for {} numbers", rows.len(), known.len()));
        }
        for (number, words) in known {
            let mut rows = rows.iter().filter(|row| leading_number(row[0]) == Some(*number));
            let has_words = |row: &&Vec<&str>| row.iter().any(|cell| cell.contains(words));
            if rows.next().filter(has_words).is_none() || rows.next().is_some() {
                self.differ(title, &format!("{number} should be \"{words}\", and once"));
            }
        }
    }

    /// Compares the fields that the row of a number lists, as `name (length), name (length)`, with bytes.
    pub(crate) fn listed(&mut self, title: &str, number: u64, bytes: &[u8], fields: &[Field]) {
        let (_, rows) = self.table(title);
        let row = rows.iter().find(|row| leading_number(row[0]) == Some(number));
        // The cells before the last have names, in which a number may stand too.
        let text = row.and_then(|row| row.iter().rev().find(|cell| has_list(cell, fields))).unwrap_or(&"");
        self.list(&format!("{title}, {number}"), text, bytes, fields);
    }

    /// Compares the fields that the row of a name lists with bytes.
    pub(crate) fn named(&mut self, title: &str, name: &str, bytes: &[u8], fields: &[Field]) {
        let (_, rows) = self.table(title);
        let has_name = |cell: &str| cell.split(", ").any(|one| one.trim_matches('`') == name);
        match rows.iter().find(|row| has_name(row[0])) {
            Some(row) => self.list(&format!("{title}, {name}"), row[row.len() - 1], bytes, fields),
            None => self.differ(title, &format!("there is no row of {name}")),
        }
    }

    /// Compares the fields that a sentence lists from these words on.
    pub(crate) fn sentence(&mut self, begin: &str, bytes: &[u8], fields: &[Field]) {
        let found = self.paragraphs.iter().find_map(|one| one.find(begin).map(|from| &one[from..]));
        let text = found.and_then(|rest| rest.split(". ").next()).unwrap_or("").to_owned();
        self.list(begin, &text, bytes, fields);
    }

    fn list(&mut self, place: &str, text: &str, bytes: &[u8], fields: &[Field]) {
        let (mut rest, mut at) = (text, 0);
        for field in fields {
            let (name, length, behind) = next_length(rest);
            let length_is = length.is_some_and(|length| length == field.bytes.len());
            match name.find(&field.fields) {
                Some(_) if field.is_sized && length_is => rest = behind,
                Some(from) if !field.is_sized => rest = &rest[from + field.fields.len()..],
                Some(_) => {
                    return self.differ(place, &format!("{} has {} bytes", field.fields, field.bytes.len()));
                }
                None => return self.differ(place, &format!("\"{}\" is expected next", field.fields)),
            }
            if bytes.get(at..at + field.bytes.len()) != Some(&field.bytes[..]) {
                self.differ(place, &format!("the code writes other bytes as {}", field.fields));
            }
            at += field.bytes.len();
        }
        if let (name, Some(_), _) = next_length(rest) {
            self.differ(place, &format!("the code has no \"{name}\""));
        }
        if at != bytes.len() {
            self.differ(place, &format!("the code writes {} bytes, the fields have {at}", bytes.len()));
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn leading_number(cell: &str) -> Option<u64> {
    cell.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What a sum like ``14 + 4 `i` `` comes to.
fn value(sum: &str, letters: &[(&str, usize)]) -> Option<usize> {
    let factor = |word: &str| {
        let letter = letters.iter().find(|(letter, _)| word.trim_matches('`') == *letter);
        word.parse().ok().or(letter.map(|(_, value)| *value))
    };
    sum.split(" + ").map(|product| product.split(' ').map(factor).product::<Option<usize>>()).sum()
}

/// Whether a field has the stated length: a sum; `N each`; or `N texts` behind lengths of 4 bytes each.
fn has_length(stated: &str, letters: &[(&str, usize)], field: &Field) -> bool {
    if let Some(count) = stated.strip_suffix("text").or(stated.strip_suffix(" texts")) {
        let (mut rest, mut texts) = (&field.bytes[..], 0);
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            rest = behind.get(u32::from_le_bytes(*length) as usize..).unwrap_or(&[]);
            texts += 1;
        }
        return count.parse().unwrap_or(1) == texts;
    }
    let stated = stated.strip_suffix(" each").unwrap_or(stated);
    value(stated, letters).is_some_and(|length| length * field.count == field.bytes.len())
}

/// Up to the next `(N)`, where `N` may be followed by a remark: the text before it, `N`, and the text behind it.
fn next_length(text: &str) -> (&str, Option<usize>, &str) {
    for (from, _) in text.match_indices('(') {
        let behind = &text[from + 1..];
        let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_length = [")", ":", ";", ",", " each"].iter().any(|end| behind[digits..].starts_with(end));
        if let (Ok(length), true, Some(end)) = (behind[..digits].parse(), is_length, behind.find(')')) {
            return (&text[..from], Some(length), &behind[end + 1..]);
        }
    }
    (text, None, "")
}

fn has_list(cell: &str, fields: &[Field]) -> bool {
    fields.first().is_some_and(|first| cell.contains(&first.fields))
}

/// The document with each number of its tables changed, and with each row left out, once; with the line as it is then.
fn altered(text: &str, is_checked: fn(&[&str]) -> bool) -> Vec<(String, String)> {
    const NUMBERS: [&str; 6] = ["offset", "bytes", "size", "kind", "type", "tag"];
    let lines: Vec<&str> = text.lines().collect();
    let with = |at: usize, line: Option<&str>| {
        let before = lines[..at].iter().copied().chain(line);
        before.chain(lines[at + 1..].iter().copied()).collect::<Vec<_>>().join("\n")
    };
    let mut all = Vec::new();
    let mut head: Option<Vec<&str>> = None;
    for (at, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            head = None;
        } else if head.is_none() {
            head = Some(cells(line));
        } else if !line.contains("---") && head.as_deref().is_some_and(is_checked) {
            all.push((format!("(without) {line}"), with(at, None)));
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
            for (column, name) in head.iter().flatten().enumerate() {
                let begin = line.len() - line.trim_start_matches('|').len();
                let begin = begin + cells[..column].iter().map(|cell| cell.len() + 1).sum::<usize>();
                let is_number = NUMBERS.iter().any(|number| name.starts_with(number));
                for digits in digits_of(cells[column], is_number) {
                    let (from, to) = (begin + digits.start, begin + digits.end);
                    let number: u64 = line[from..to].parse().unwrap_or(0);
                    let line = format!("{}{}{}", &line[..from], number + 1, &line[to..]);
                    all.push((line.clone(), with(at, Some(&line))));
                }
            }
        }
    }
    all
}

/// Where a cell has numbers: the first in a cell of numbers, and lengths in brackets.
fn digits_of(cell: &str, is_number: bool) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    if let Some(begin) = cell.find(|c: char| c.is_ascii_digit()).filter(|_| is_number) {
        let digits = cell[begin..].bytes().take_while(u8::is_ascii_digit).count();
        found.push(begin..begin + digits);
        at = begin + digits;
    }
    while let (name, Some(_), behind) = next_length(&cell[at..]) {
        let begin = at + name.len() + 1;
        let digits = cell[begin..].bytes().take_while(u8::is_ascii_digit).count();
        found.push(begin..begin + digits);
        at = cell.len() - behind.len();
    }
    found
}
