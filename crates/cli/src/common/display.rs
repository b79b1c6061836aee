//! Bytes in JSON, which has only text: a field `x` if they are UTF-8, else a field `x_base64`.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// The key of a record; to be flattened into an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonKey<'a>(pub(crate) &'a [u8]);

/// A value of a record; an object by itself, or to be flattened into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonValue<'a>(pub(crate) &'a [u8]);

/// The name of a blob; an object by itself, or to be flattened into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a>(pub(crate) &'a [u8]);

/// A log or queue: its name under its kind; to be flattened into an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerName<'a> {
    /// `log` or `queue`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
}

/// The keys that a watch selects, without the bounds that it does not have; to be flattened into an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedKeys<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
    pub(crate) prefix: &'a [u8],
}

/// The attributes of a blob; to be flattened into an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        field(serializer, "name", "name_base64", self.0)
    }
}

impl Serialize for LayerName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.kind, self.name)?;
        map.end()
    }
}

impl Serialize for SelectedKeys<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let bounds = [
            ("from", "from_base64", self.from),
            ("to", "to_base64", self.to),
            ("prefix", "prefix_base64", self.prefix),
        ];
        for (text, binary, bytes) in bounds.into_iter().filter(|(.., bytes)| !bytes.is_empty()) {
            match std::str::from_utf8(bytes) {
                Ok(utf8) => map.serialize_entry(text, utf8)?,
                Err(_) => map.serialize_entry(binary, &base64(bytes))?,
            }
        }
        map.end()
    }
}

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        field(serializer, "attributes", "attributes_base64", self.0)
    }
}

impl Serialize for JsonKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        field(serializer, "key", "key_base64", self.0)
    }
}

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        field(serializer, "value", "value_base64", self.0)
    }
}

fn field<S: Serializer>(
    serializer: S,
    text: &'static str,
    binary: &'static str,
    bytes: &[u8],
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    match std::str::from_utf8(bytes) {
        Ok(utf8) => map.serialize_entry(text, utf8)?,
        Err(_) => map.serialize_entry(binary, &base64(bytes))?,
    }
    map.end()
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_padding = digit > three.len();
            let value = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if is_padding { '=' } else { char::from(DIGITS[value]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_standard() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(["", "f", "fo", "foo", "foob"].map(of), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn json_prints_text_as_text_and_other_bytes_as_base64() {
        assert_eq!(serde_json::to_string(&JsonKey(b"a\"b")).unwrap(), r#"{"key":"a\"b"}"#);
        assert_eq!(serde_json::to_string(&JsonValue(b"\xff")).unwrap(), r#"{"value_base64":"/w=="}"#);
    }
}
