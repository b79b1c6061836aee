//! HTTP requests at the port of an instance, which a browser can be made to send.

use zerohop_resp::NextStep;

use crate::connection::ModelClient;

/// Nothing behind the first line is carried out.
#[test]
fn http_request_is_answered_with_advice_and_closes_the_connection() {
    for method in ["POST", "GET", "HEAD", "PUT", "OPTIONS"] {
        let mut client = ModelClient::new();
        client.bytes(format!("{method} / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n").as_bytes());
        let replies = client.replies();
        let (head, body) = replies.split_once("\r\n\r\n").unwrap();
        assert_eq!(client.then, NextStep::Close);
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{head}, {} bytes",
            body.len()
        );
        assert!(body.contains("`zerohop node list`"), "{body}");
    }
    for later in [&b"POST / HTTP/1.1\r\nFLUSHALL\r\n"[..], b"Host: x\r\nFLUSHALL\r\n"] {
        let mut client = ModelClient::new();
        client.bytes(b"PING\r\n");
        client.bytes(later);
        assert_eq!((client.then, client.replies().as_str()), (NextStep::Close, "+PONG\r\n"));
    }
}
