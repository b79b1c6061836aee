//! The sentences of error documents. s3s writes some documents without one.

use hyper::Response;
use hyper::header::CONTENT_LENGTH;
use s3s::Body;

/// The sentence for a code.
fn sentence(code: &str) -> &'static str {
    match code {
        "AccessDenied" => "The request is not permitted.",
        "EntityTooLarge" => "The body of the request is too large.",
        "IncompleteBody" => "The body has another length than Content-Length announces.",
        "InternalError" | "ServiceUnavailable" => "The operation failed; repeat it.",
        "InvalidArgument" => "An argument of the request is invalid.",
        "InvalidBucketName" => {
            "The name of a bucket has 3 to 63 lower-case letters, digits, dots and hyphens, and a letter or digit at both ends."
        }
        "InvalidPolicyDocument" => "The policy of the form cannot be read.",
        "InvalidRange" => "The requested range is not satisfiable.",
        "InvalidURI" => "The path or the query cannot be decoded.",
        "KeyTooLongError" => "The key is above 1024 bytes.",
        "MalformedPOSTRequest" => "The form cannot be read.",
        "MalformedXML" => "The document is no valid XML, or lacks what the operation needs.",
        "MaxMessageLengthExceeded" => "The document of the request is too long.",
        "MethodNotAllowed" => "The method is not permitted for this path.",
        "MissingContentLength" => "The request needs Content-Length.",
        "MissingRequestBodyError" => "The request needs a document.",
        "NotImplemented" => "The gateway does not have this operation.",
        "SignatureDoesNotMatch" => {
            "The signature is not that of the request: check the secret access key, and how the client signs."
        }
        _ => "The request is invalid.",
    }
}

/// The code of an error document.
pub(super) fn error_code(response: &Response<Body>) -> Option<String> {
    if response.status().is_success() {
        return None;
    }
    let text = String::from_utf8(response.body().bytes()?.to_vec()).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.to_owned())
}

/// Adds a sentence to an error document with this code that has none.
pub(super) fn add_message(response: &mut Response<Body>, code: &str) {
    let Some(text) = response.body().bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()) else {
        return;
    };
    let end = format!("<Code>{code}</Code>");
    let Some((before, after)) = text.split_once(&end).filter(|_| !text.contains("<Message>")) else { return };
    let message = sentence(code);
    *response.body_mut() = Body::from(format!("{before}{end}<Message>{message}</Message>{after}"));
    response.headers_mut().remove(CONTENT_LENGTH);
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;

    fn completed(document: &str) -> String {
        let mut response = Response::new(Body::from(document.to_owned()));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        if let Some(code) = error_code(&response) {
            add_message(&mut response, &code);
        }
        String::from_utf8(response.body().bytes().expect("the document is there").to_vec())
            .expect("it is text")
    }

    #[test]
    fn document_without_a_sentence_gets_one() {
        let bare = "<Error><Code>InvalidURI</Code></Error>";
        let message = "<Message>The path or the query cannot be decoded.</Message>";
        assert_eq!(completed(bare), format!("<Error><Code>InvalidURI</Code>{message}</Error>"));
        assert!(
            completed("<Error><Code>New</Code></Error>")
                .contains("<Message>The request is invalid.</Message>")
        );
        let complete = "<Error><Code>InvalidURI</Code><Message>No.</Message></Error>";
        assert_eq!((completed(complete), completed("")), (complete.to_owned(), String::new()));
    }
}
