//! The keys of JSON in answers, with the types of their values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Figures that are null without activity in the interval, which depends on time.
const EITHER: [&str; 2] = ["us_p50", "us_p99"];

/// Texts for users, which depend on the state of the machine or the cluster.
const TEXT_FIELDS: [&str; 2] = ["troubles[]", "warnings[]"];

/// Counts whose names are texts for users.
const COUNTS: &str = "sim: coverage";

/// Paths in answers, with the types of their values.
#[derive(Default)]
pub(super) struct KeyPaths(BTreeMap<String, BTreeSet<&'static str>>);

impl KeyPaths {
    /// Adds JSON, one value a line.
    pub(super) fn add_lines(&mut self, command: &str, text: &str) {
        for line in text.lines() {
            let value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{command}: {error}: {line}"));
            self.add(command, &value);
        }
    }

    pub(super) fn add(&mut self, command: &str, value: &Value) {
        for (key, value) in value.as_object().unwrap() {
            self.walk(&format!("{command}: {key}"), value);
        }
    }

    fn walk(&mut self, path: &str, value: &Value) {
        if TEXT_FIELDS.iter().any(|words| path.ends_with(words)) {
            return;
        }
        let kinds = self.0.entry(path.to_owned()).or_default();
        kinds.insert(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        });
        if EITHER.iter().any(|figure| path.ends_with(figure)) {
            kinds.extend(["null", "number"]);
        }
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.walk(&format!("{path}[]"), one)),
            Value::Object(fields) if path != COUNTS => {
                fields.iter().for_each(|(key, value)| self.walk(&format!("{path}.{key}"), value));
            }
            _ => {}
        }
    }

    /// The paths of a command, with their types.
    pub(super) fn of(&self, command: &str) -> BTreeMap<&str, &BTreeSet<&'static str>> {
        let own = |(path, kinds)| {
            let path: &str = path;
            Some((path.strip_prefix(command)?.strip_prefix(": ")?, kinds))
        };
        self.0.iter().filter_map(|(path, kinds)| own((path, kinds))).collect()
    }

    /// Elements that are objects have lines for their fields only.
    pub(super) fn lines(&self) -> BTreeSet<String> {
        let shown = |(path, kinds): (&String, &BTreeSet<&str>)| {
            let kinds: Vec<&str> = kinds.iter().copied().collect();
            (!path.ends_with("[]") || kinds != ["object"]).then(|| format!("{path} {}", kinds.join("|")))
        };
        self.0.iter().filter_map(shown).collect()
    }
}

#[test]
fn json_is_read_without_its_values() {
    let mut paths = KeyPaths::default();
    paths.add_lines(
        "x",
        "{\"a\":[{\"b\":1}],\"c\":null,\"warnings\":[\"w\"]}\n{\"a\":[],\"c\":\"\",\"d\":[1]}\n",
    );
    let expected = [
        "x: a array",
        "x: a[].b number",
        "x: c null|string",
        "x: d array",
        "x: d[] number",
        "x: warnings array",
    ];
    assert_eq!(paths.lines().iter().collect::<Vec<_>>(), expected);
}
