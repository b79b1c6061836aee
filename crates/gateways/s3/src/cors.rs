//! Rules by which browsers let the pages of other origins use a bucket (CORS).

use zerohop_base::bytes::Reader;

/// The setting of a bucket.
pub(crate) const SETTING: &str = "cors";
/// The format of the setting.
const FORMAT: u8 = 1;
/// The most rules of a bucket.
pub(crate) const RULES_MAX: usize = 100;

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CorsRule {
    /// The name that the writer chose.
    pub(crate) id: Option<String>,
    /// Origins, each with at most one `*` for any text.
    pub(crate) origins: Vec<String>,
    /// Methods.
    pub(crate) methods: Vec<String>,
    /// Headers of requests, each with at most one `*`.
    pub(crate) allowed_headers: Vec<String>,
    /// Headers of answers that pages may read.
    pub(crate) exposed_headers: Vec<String>,
    /// For how many seconds a browser may remember the answer.
    pub(crate) max_age: Option<u32>,
}

/// Whether a text is that of a pattern with at most one `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((front, back)) => {
            text.len() >= front.len() + back.len() && text.starts_with(front) && text.ends_with(back)
        }
    }
}

impl CorsRule {
    /// What is wrong with the rule.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let is_pattern = |text: &String| text.matches('*').count() <= 1 && !text.is_empty();
        if self.origins.is_empty() || !self.origins.iter().all(is_pattern) {
            return Some("A rule needs origins, each with at most one *.");
        }
        let known = ["GET", "PUT", "HEAD", "POST", "DELETE"];
        if self.methods.is_empty() || !self.methods.iter().all(|method| known.contains(&&method[..])) {
            return Some("A rule needs methods out of GET, PUT, HEAD, POST and DELETE.");
        }
        if !self.allowed_headers.iter().all(is_pattern) {
            return Some("An allowed header has at most one *.");
        }
        let is_name = |text: &String| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        (!self.exposed_headers.iter().all(is_name)).then_some("An exposed header is the name of a header.")
    }

    /// Whether it permits the method, and all headers, to pages of the origin.
    fn permits<'h>(&self, origin: &str, method: &str, mut headers: impl Iterator<Item = &'h str>) -> bool {
        let allows = |header: &str| {
            let header = header.to_ascii_lowercase();
            self.allowed_headers.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), &header))
        };
        self.origins.iter().any(|pattern| fits(pattern, origin))
            && self.methods.iter().any(|one| one == method)
            && headers.all(allows)
    }

    /// Whether every origin is permitted, so that an answer is the same for all.
    pub(crate) fn is_for_all(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }
}

/// The names of headers in the text of `Access-Control-Request-Headers`.
pub(crate) fn header_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The first rule that permits a request.
pub(crate) fn find<'r>(
    rules: &'r [CorsRule],
    origin: &str,
    method: &str,
    headers: &str,
) -> Option<&'r CorsRule> {
    rules.iter().find(|rule| rule.permits(origin, method, header_names(headers)))
}

fn write_texts(into: &mut Vec<u8>, texts: &[String]) {
    into.extend_from_slice(&u32::try_from(texts.len()).unwrap_or(u32::MAX).to_le_bytes());
    for text in texts {
        into.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        into.extend_from_slice(text.as_bytes());
    }
}

fn read_texts(reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let count = reader.count(4, 1 << 16)?;
    let mut text = || {
        let length = reader.u32()? as usize;
        String::from_utf8(reader.bytes(length)?.to_vec()).ok()
    };
    (0..count).map(|_| text()).collect()
}

/// The bytes of the setting.
pub(crate) fn encode(rules: &[CorsRule]) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    bytes.extend_from_slice(&u32::try_from(rules.len()).unwrap_or(u32::MAX).to_le_bytes());
    for rule in rules {
        write_texts(&mut bytes, rule.id.as_slice());
        for texts in [&rule.origins, &rule.methods, &rule.allowed_headers, &rule.exposed_headers] {
            write_texts(&mut bytes, texts);
        }
        bytes.push(u8::from(rule.max_age.is_some()));
        bytes.extend_from_slice(&rule.max_age.unwrap_or(0).to_le_bytes());
    }
    bytes
}

/// The rules that the setting has.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<CorsRule>> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != FORMAT {
        return None;
    }
    let count = reader.count(25, RULES_MAX)?;
    let mut rules = Vec::with_capacity(count);
    for _ in 0..count {
        rules.push(CorsRule {
            id: read_texts(&mut reader)?.pop(),
            origins: read_texts(&mut reader)?,
            methods: read_texts(&mut reader)?,
            allowed_headers: read_texts(&mut reader)?,
            exposed_headers: read_texts(&mut reader)?,
            max_age: {
                let (has_age, age) = (reader.u8()?, reader.u32()?);
                (has_age == 1).then_some(age)
            },
        });
    }
    reader.is_at_end().then_some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn rule() -> CorsRule {
        CorsRule {
            id: Some("one".to_owned()),
            origins: texts(&["https://*.example.org", "http://a"]),
            methods: texts(&["GET", "PUT"]),
            allowed_headers: texts(&["x-amz-*", "Content-Type"]),
            exposed_headers: texts(&["ETag"]),
            max_age: Some(60),
        }
    }

    #[test]
    fn rules_are_read_back_and_no_prefix_of_them_is_one() {
        let bytes = encode(&[rule(), CorsRule::default()]);
        assert_eq!(decode(&bytes), Some(vec![rule(), CorsRule::default()]));
        assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_none()));
    }

    #[test]
    fn origin_method_and_headers_must_fit_one_rule() {
        let rules = [rule()];
        let permits = |origin, method, headers| find(&rules, origin, method, headers).is_some();
        assert!(permits("https://www.example.org", "GET", ""));
        assert!(permits("http://a", "PUT", "X-Amz-Date, content-type"));
        assert!(!permits("https://example.org", "GET", ""));
        assert!(!permits("http://a", "DELETE", ""));
        assert!(!permits("http://a", "PUT", "x-amz-date,authorization"));
        assert!(!permits("http://ab", "GET", ""));
    }

    #[test]
    fn faults_of_rules_are_named() {
        assert_eq!(rule().fault(), None);
        for broken in [
            CorsRule { origins: Vec::new(), ..rule() },
            CorsRule { origins: texts(&["*a*"]), ..rule() },
            CorsRule { methods: texts(&["PATCH"]), ..rule() },
            CorsRule { allowed_headers: texts(&["**"]), ..rule() },
            CorsRule { exposed_headers: texts(&["a b"]), ..rule() },
        ] {
            assert!(broken.fault().is_some(), "{broken:?}");
        }
    }
}
