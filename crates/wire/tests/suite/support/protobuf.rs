//! Compares a specification in the language of Protocol Buffers with the source of the types that are derived from
//! `prost::Message`: names of messages, and names, numbers and types of fields. A type may have `Proto` behind its name.

use std::collections::BTreeMap;

/// The name and the type of each field, by its number.
type Fields = BTreeMap<u32, (String, String)>;
type Messages = BTreeMap<String, Fields>;

/// Asserts that the specification has exactly the messages and fields of these sources, and that the comparison notices each
/// line of the specification that is left out.
pub(crate) fn assert_specified(specification: &str, sources: &[&str]) {
    let found = differences(specification, sources);
    assert!(found.is_empty(), "the specification and the code differ:\n{}", found.join("\n"));
    let lines: Vec<&str> = specification.lines().collect();
    let is_field = |line: &str| {
        line.split("//").next().is_some_and(|code| code.contains(" = ") && !code.contains("syntax"))
    };
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_field(line)) {
        let without = [&lines[..at], &lines[at + 1..]].concat().join("\n");
        assert!(!differences(&without, sources).is_empty(), "nothing notices that this is missing: {line}");
    }
}

fn differences(specification: &str, sources: &[&str]) -> Vec<String> {
    let (specified, mut differences) = specified(specification);
    let written = written(sources);
    assert!(written.len() > 10, "the sources have messages");
    for name in written.keys().filter(|name| !specified.contains_key(*name)) {
        differences.push(format!("the specification has no message {name}"));
    }
    for (name, fields) in &specified {
        let Some(written) = written.get(name) else {
            differences.push(format!("the code has no message {name}"));
            continue;
        };
        let mut numbers: Vec<&u32> = fields.keys().chain(written.keys()).collect();
        numbers.sort();
        numbers.dedup();
        for number in numbers {
            let (specified, written) = (fields.get(number), written.get(number));
            if specified != written {
                differences.push(format!("{name}, field {number}: {specified:?}, in the code {written:?}"));
            }
        }
    }
    differences
}

/// The messages of a specification, and what it has twice.
fn specified(text: &str) -> (Messages, Vec<String>) {
    let code: Vec<&str> = text.lines().filter_map(|line| line.split("//").next()).collect();
    let spaced =
        code.join(" ").replace('{', " { ").replace('}', " } ").replace(';', " ; ").replace('=', " = ");
    let (mut messages, mut twice) = (Messages::new(), Vec::new());
    let (mut statement, mut message, mut is_one_of) = (Vec::new(), String::new(), false);
    for token in spaced.split_whitespace() {
        match token {
            "{" => {
                is_one_of = statement.first() == Some(&"oneof");
                if !is_one_of {
                    message = statement.last().map(|name: &&str| (*name).to_owned()).unwrap_or_default();
                    if messages.insert(message.clone(), Fields::new()).is_some() {
                        twice.push(format!("the message {message} is there twice"));
                    }
                }
                statement.clear();
            }
            "}" if is_one_of => is_one_of = false,
            "}" => message.clear(),
            ";" => {
                if let [kind @ .., name, "=", number] = &statement[..]
                    && let Some(fields) = messages.get_mut(&message)
                {
                    let number = number.parse().expect("a number");
                    if fields.insert(number, ((*name).to_owned(), kind.join(" "))).is_some() {
                        twice.push(format!("{message} has the field {number} twice"));
                    }
                }
                statement.clear();
            }
            token => statement.push(token),
        }
    }
    (messages, twice)
}

/// The messages that sources derive.
fn written(sources: &[&str]) -> Messages {
    let (mut messages, mut one_ofs) = (Messages::new(), Messages::new());
    let mut members: Vec<(String, String)> = Vec::new();
    for source in sources {
        let mut lines = source.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
        while let Some(line) = lines.next() {
            let is_derived =
                line.starts_with("#[derive(") && ["Message", "Oneof"].iter().any(|name| line.contains(name));
            if !is_derived {
                continue;
            }
            let head = lines.next().expect("a type is derived");
            let words: Vec<&str> = head.split_whitespace().collect();
            let at = words.iter().position(|word| ["struct", "enum"].contains(word)).expect("a type");
            let name = message_name(words[at + 1]);
            let mut fields = Fields::new();
            if !head.ends_with("{}") {
                let mut attribute = String::new();
                for line in lines.by_ref().take_while(|line| *line != "}") {
                    let is_open = attribute.starts_with("#[") && !attribute.ends_with(")]");
                    if is_open || line.starts_with("#[") {
                        attribute.push_str(line);
                    } else if !attribute.is_empty() {
                        match field(&attribute, line) {
                            FieldOrOneOf::Field(number, field) => {
                                assert!(fields.insert(number, field).is_none(), "{name} has {number} twice");
                            }
                            FieldOrOneOf::OneOf(one_of) => members.push((name.clone(), one_of)),
                        }
                        attribute.clear();
                    }
                }
            }
            let all = if words[at] == "enum" { &mut one_ofs } else { &mut messages };
            assert!(all.insert(name, fields).is_none(), "two messages have one name: {head}");
        }
    }
    for (message, one_of) in members {
        let fields = one_ofs.remove(&one_of).expect("the enum is in the sources");
        messages.get_mut(&message).expect("it is a message").extend(fields);
    }
    messages
}

enum FieldOrOneOf {
    Field(u32, (String, String)),
    OneOf(String),
}

/// What an attribute and the line behind it declare.
fn field(attribute: &str, line: &str) -> FieldOrOneOf {
    let quoted = |key: &str| {
        let behind = attribute.split_once(&format!("{key} = \"")).map(|(_, behind)| behind);
        behind.and_then(|behind| behind.split('"').next())
    };
    if let Some(one_of) = quoted("oneof") {
        return FieldOrOneOf::OneOf(message_name(one_of));
    }
    let number = quoted("tag").and_then(|tag| tag.parse().ok()).expect("a field has a number");
    let declared = line.trim_end_matches(',').rsplit_once(") ").map_or(line, |(_, rest)| rest);
    let declared = declared.trim_start_matches("pub ").trim_end_matches([',', ')']);
    let (name, rust_type) = declared.split_once([':', '(']).expect("a name and a type");
    let inner = rust_type.trim().trim_end_matches('>').rsplit('<').next().unwrap_or_default();
    let words: Vec<&str> = attribute.trim_start_matches("#[prost(").split([',', ' ', ')', '=']).collect();
    let kind = match words[0] {
        "message" => message_name(inner.rsplit("::").next().unwrap_or(inner)),
        scalar => scalar.to_owned(),
    };
    let is_optional = words.contains(&"optional") && words[0] != "message";
    let label = if words.contains(&"repeated") {
        "repeated "
    } else if is_optional {
        "optional "
    } else {
        ""
    };
    FieldOrOneOf::Field(number, (snake_case(name), format!("{label}{kind}")))
}

fn message_name(name: &str) -> String {
    let name = name.trim_end_matches("{}");
    name.strip_suffix("Proto").unwrap_or(name).to_owned()
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
