//! Any bytes as a control request and as the answer to one: refused, or read into what is written and read back the same.

use zerohop_wire::admin::{AdminAnswer, AdminRequest};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(request) = AdminRequest::from_bytes(bytes) {
        assert_eq!(AdminRequest::from_bytes(&request.to_bytes()), Ok(request));
    }
    if let Ok(answer) = AdminAnswer::from_bytes(bytes) {
        assert_eq!(AdminAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
    }
}
