//! Helpers for the tests of protocols, in this package and in the benchmarks.

use super::{Answer, AnswerContent, Op, Protocol, Request};
use crate::workload::Records;

/// The bytes of one request for record 3, its key and its value.
///
/// # Panics It cannot be encoded.
pub fn bytes(protocol: &mut impl Protocol, op: Op) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let records = Records::new(4, 1);
    let (key, value) = (records.key(3), records.value(3, 0));
    let mut out = b"before".to_vec();
    let encoded = protocol.request(&Request { op, index: 3, key, value, slot: 0 }, &mut out);
    assert!(encoded.is_ok(), "{encoded:?}");
    (out.split_off(6), key.to_vec(), value.to_vec())
}

/// Asserts that every proper prefix is unfinished, and that the whole is `content` and leaves the
/// rest.
///
/// # Panics If that does not hold.
pub fn reads<P: Protocol>(mut fresh: impl FnMut() -> P, op: Op, bytes: &[u8], content: AnswerContent<'_>) {
    for end in 0..bytes.len() {
        assert_eq!(fresh().answer(op, &bytes[..end]).ok(), Some(Answer::Unfinished), "{end} bytes");
    }
    let more = [bytes, b"+?"].concat();
    let whole = Answer::Whole { used: bytes.len(), slot: 0, content };
    assert_eq!(fresh().answer(op, &more).ok(), Some(whole));
}
