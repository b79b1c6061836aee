//! The input of the hash for a proof.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::Failure;
use crate::messages::{Hello, HelloAck};

/// HMAC-SHA-256 (RFC 2104, FIPS 180-4).
pub(super) type HmacSha256 = Hmac<Sha256>;

/// Length of the body of `HelloAck` before its proof, in bytes.
const ACK_BYTES: usize = 96;

/// A key. It is never displayed, and is compared in constant time.
#[derive(Clone)]
pub(super) struct MacKey([u8; 32]);

impl MacKey {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        MacKey(bytes)
    }

    /// Derives a key for this purpose only; the original key cannot be computed from it.
    pub(super) fn derive(&self, purpose: &[u8]) -> MacKey {
        let mut mac = keyed(&self.0);
        mac.update(purpose);
        MacKey(mac.finalize().into_bytes().into())
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for MacKey {
    fn eq(&self, other: &MacKey) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differs, (one, two)| differs | (one ^ two)) == 0
    }
}

impl Eq for MacKey {}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(not shown)")
    }
}

/// The side that sends the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    /// The prefix of its proofs; neither is a prefix of the other.
    const fn label(self) -> &'static [u8; 16] {
        match self {
            Side::Client => b"zerohop client 1",
            Side::Server => b"zerohop server 1",
        }
    }
}

/// The messages of both sides before the first proof, as one hash input for each side.
pub(super) struct Transcript {
    hello: Vec<u8>,
    ack: [u8; ACK_BYTES],
}

impl Transcript {
    /// Creates it from the body of `Hello` as [`hello_bytes`] encodes it, and a reply whose proof is ignored.
    pub(super) fn new(hello: Vec<u8>, ack: &HelloAck) -> Self {
        let mut ack_bytes = [0; ACK_BYTES];
        ack_bytes.copy_from_slice(&ack.encode()[..ACK_BYTES]);
        Transcript { hello, ack: ack_bytes }
    }

    /// The label, the length of the body of `Hello` (4 bytes, little-endian), that body, and the body of `HelloAck` without its proof.
    pub(super) fn mac(&self, key: &MacKey, side: Side) -> HmacSha256 {
        let mut mac = keyed(&key.0);
        mac.update(side.label());
        // A greeting has at most 1 KiB.
        mac.update(&(self.hello.len() as u32).to_le_bytes());
        mac.update(&self.hello);
        mac.update(&self.ack);
        mac
    }

    pub(super) fn proof(&self, key: &MacKey, side: Side) -> [u8; 32] {
        self.mac(key, side).finalize().into_bytes().into()
    }
}

/// The body of a `Hello`. Its receiver gets the same bytes when it encodes the message again, because each field has only one encoding.
pub(super) fn hello_bytes(hello: &Hello<'_>) -> Result<Vec<u8>, Failure<'static>> {
    let mut bytes = Vec::with_capacity(144);
    let name = hello.put(&mut bytes)?;
    bytes.extend_from_slice(name);
    Ok(bytes)
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02x}"))
}

/// A hash with this key.
pub(super) fn keyed(key: &[u8]) -> HmacSha256 {
    match HmacSha256::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of every length"),
    }
}
