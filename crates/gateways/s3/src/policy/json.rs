//! JSON as a tree in which no name of an object occurs twice: of two readers of such a text, each could see another policy.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Text(String),
    List(Vec<Json>),
    /// Names and values.
    Map(Vec<(String, Json)>),
    /// A number, a truth value or `null`: a policy has none.
    Other,
}

impl Json {
    /// Reads a text.
    ///
    /// # Errors
    /// It is no JSON, or an object has a name twice.
    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// One text, or a list of texts.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) => Some(vec![text]),
            Self::List(values) => values.iter().map(Self::text).collect(),
            _ => None,
        }
    }

    /// Whether this text is a value somewhere in it.
    #[cfg(test)]
    pub(super) fn contains(&self, text: &str) -> bool {
        match self {
            Self::Text(one) => one == text,
            Self::List(values) => values.iter().any(|value| value.contains(text)),
            Self::Map(fields) => fields.iter().any(|(_, value)| value.contains(text)),
            Self::Other => false,
        }
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        while let Some(name) = access.next_key::<String>()? {
            if !names.insert(name.clone()) {
                access.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom(format_args!("the name {name:?} occurs twice")));
            }
            let value = access.next_value()?;
            fields.push((name, value));
        }
        Ok(Json::Map(fields))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}
