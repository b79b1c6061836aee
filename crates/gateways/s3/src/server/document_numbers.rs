//! Numbers in documents of requests. s3s reads the digits at the beginning of `1.5` or `30days`, and passes over the rest.

use s3s::xml::{DeError, DeResult, Deserializer};

/// The elements with whole numbers.
const NUMBERS: [&str; 8] = [
    "Days",
    "DaysAfterInitiation",
    "MaxAgeSeconds",
    "NewerNoncurrentVersions",
    "NoncurrentDays",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
    "PartNumber",
];

/// How deep elements are looked at. No document of an operation is deeper.
const DEPTH_MAX: usize = 16;

fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn look(document: &mut Deserializer<'_>, depth: usize, found: &mut Option<&'static str>) -> DeResult {
    if depth > DEPTH_MAX {
        return Err(DeError::InvalidContent);
    }
    document.for_each_element(|document, element| {
        let Some(name) = NUMBERS.into_iter().find(|name| name.as_bytes() == element) else {
            return look(document, depth + 1, found);
        };
        if document.text(|text| Ok(is_whole(text)))? {
            return Ok(());
        }
        *found = Some(name);
        Err(DeError::InvalidContent)
    })
}

/// The first element of a document whose number is not whole. A document that is no XML has none.
pub(super) fn broken_number(document: &[u8]) -> Option<&'static str> {
    let mut found = None;
    drop(look(&mut Deserializer::new(document), 0, &mut found));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_numbers_are_found_at_every_depth() {
        for (document, found) in [
            ("<A><B><Days>1.5</Days></B></A>", Some("Days")),
            (
                "<?xml version=\"1.0\"?><A x=\"1\"><Days>1</Days><PartNumber>2e3</PartNumber></A>",
                Some("PartNumber"),
            ),
            ("<A><Days>1<!-- -->.5</Days></A>", Some("Days")),
            ("<A><Days> 1</Days></A>", Some("Days")),
            ("<A><Days></Days></A>", Some("Days")),
            ("<A>1.5<Days>-1</Days><Key>1.5</Key><NoncurrentDays>007</NoncurrentDays></A>", None),
            ("<A><Days>1.5", Some("Days")),
            ("{\"Days\": 1.5}", None),
            ("", None),
        ] {
            assert_eq!(broken_number(document.as_bytes()), found, "{document}");
        }
        assert_eq!(broken_number("<A>".repeat(1 << 20).as_bytes()), None);
    }
}
