//! Requests with signatures (version 4), byte by byte, and answers. The tests of the program use it too.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The secret of the access key `tester`.
pub(crate) const SECRET: &str = "tester-secret";

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads an answer; the status is 0 if none came.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The code of an error document.
    pub(crate) fn code(&self) -> &str {
        let code = self.body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        code.map_or("", |(code, _)| code)
    }
}

/// A request.
pub(crate) struct SignedRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: Vec<(&'a str, String)>,
    pub(crate) access_key: &'a str,
    /// The secret access key.
    pub(crate) secret: &'a str,
    /// The region of the signature.
    pub(crate) region: &'a str,
    /// Seconds by which the client's clock is wrong.
    pub(crate) clock_off: i64,
    /// The value of `x-amz-content-sha256`.
    pub(crate) content: String,
}

/// What chunks are signed with.
pub(crate) struct ChunkSigner {
    date: String,
    key: Vec<u8>,
    previous: String,
}

impl<'a> SignedRequest<'a> {
    pub(crate) fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            query: "",
            headers: Vec::new(),
            access_key: "tester",
            secret: SECRET,
            region: "us-east-1",
            clock_off: 0,
            content: "UNSIGNED-PAYLOAD".to_owned(),
        }
    }

    pub(crate) fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn content(mut self, content: impl Into<String>) -> Self {
        self.content = content.into();
        self
    }

    /// The head of the request for a body of `length` bytes, and what signs its chunks.
    pub(crate) fn head(&self, length: usize) -> (String, ChunkSigner) {
        let now = zerohop_system::clock::unix_ms() / 1000;
        let date = date_text(now.saturating_add_signed(self.clock_off));
        let day = &date[..8];
        let mut headers: Vec<(&str, String)> = vec![
            ("host", "127.0.0.1".to_owned()),
            ("x-amz-content-sha256", self.content.clone()),
            ("x-amz-date", date.clone()),
        ];
        headers.extend(self.headers.iter().cloned());
        headers.sort();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let query = if self.query.is_empty() || self.query.contains('=') {
            self.query.to_owned()
        } else {
            format!("{}=", self.query)
        };
        let canonical =
            format!("{}\n{}\n{query}\n{lines}\n{names}\n{}", self.method, self.path, self.content);
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hash(canonical.as_bytes()));
        let key = [self.region, "s3", "aws4_request"]
            .iter()
            .fold(mac(format!("AWS4{}", self.secret).as_bytes(), day), |key, part| mac(&key, part));
        let signature = hex(&mac(&key, &text));
        let sent: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let separator = if self.query.is_empty() { "" } else { "?" };
        let head = format!(
            "{} {}{separator}{} HTTP/1.1\r\n{sent}authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, \
             SignedHeaders={names}, Signature={signature}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n",
            self.method, self.path, self.query, self.access_key
        );
        (head, ChunkSigner { date, key, previous: signature })
    }
}

impl ChunkSigner {
    /// A chunk with its signature.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> Vec<u8> {
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}/us-east-1/s3/aws4_request\n{}\n{}\n{}",
            self.date,
            &self.date[..8],
            self.previous,
            hash(b""),
            hash(bytes)
        );
        self.previous = hex(&mac(&self.key, &text));
        let head = format!("{:x};chunk-signature={}\r\n", bytes.len(), self.previous);
        [head.as_bytes(), bytes, b"\r\n"].concat()
    }
}

/// The hexadecimal SHA-256 of bytes.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key has any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `YYYYMMDDThhmmssZ` of seconds since 1970.
fn date_text(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, days);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= if leap(year) { 366 } else { 365 } {
        left -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let mut month = 1;
    for length in [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let day = left + 1;
    format!("{year}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}
