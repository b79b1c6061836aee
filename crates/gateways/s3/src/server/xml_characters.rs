//! Characters that XML 1.0 does not have, in documents of answers: names may have them, and s3s writes them as they are.

use std::fmt::Write;

use hyper::Response;
use hyper::header::CONTENT_TYPE;
use s3s::Body;

/// Whether a character cannot stand in a document. A parser makes a line feed of a carriage return.
const fn is_unfit(letter: char) -> bool {
    matches!(letter, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Writes such characters as references, as S3 does. A strict parser refuses most of them: clients that use one ask for names that
/// are encoded.
pub(super) fn escape_characters(response: &mut Response<Body>) {
    if response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != "application/xml") {
        return;
    }
    // The contents of an object are a stream.
    let Some(bytes) = response.body().bytes() else { return };
    let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| text.contains(is_unfit)) else { return };
    let mut escaped = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        if is_unfit(letter) {
            let _ = write!(escaped, "&#x{:x};", u32::from(letter));
        } else {
            escaped.push(letter);
        }
    }
    *response.body_mut() = Body::from(escaped);
}
