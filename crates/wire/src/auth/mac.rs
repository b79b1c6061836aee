//! What is hashed for a proof.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::Failure;
use crate::messages::{Hello, HelloAck};

/// HMAC-SHA-256 (RFC 2104, FIPS 180-4).
pub(super) type HmacSha256 = Hmac<Sha256>;

/// Bytes of the body of `HelloAck` before its proof.
const ACK_BYTES: usize = 96;

/// A key. It is never shown, and compared in the same time whatever differs.
#[derive(Clone)]
pub(super) struct MacKey([u8; 32]);

impl MacKey {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        MacKey(bytes)
    }

    /// A key for this purpose alone; from it nobody finds this one.
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

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    /// What its proofs begin with; none is the beginning of the other.
    const fn label(self) -> &'static [u8; 16] {
        match self {
            Side::Client => b"zerohop client 1",
            Side::Server => b"zerohop server 1",
        }
    }
}

/// What both have said before the first proof, as one hash input for each side.
pub(super) struct Transcript {
    hello: Vec<u8>,
    ack: [u8; ACK_BYTES],
}

impl Transcript {
    /// Of the body of `Hello` as [`hello_bytes`] has it, and an answer whose proof is not looked at.
    pub(super) fn new(hello: Vec<u8>, ack: &HelloAck) -> Self {
        let mut said = [0; ACK_BYTES];
        said.copy_from_slice(&ack.encode()[..ACK_BYTES]);
        Transcript { hello, ack: said }
    }

    /// Label, length of the body of `Hello` (4 bytes, little-endian), that body, the body of `HelloAck` but for its proof.
    pub(super) fn mac(&self, key: &MacKey, side: Side) -> HmacSha256 {
        let mut mac = keyed(&key.0);
        mac.update(side.label());
        // A greeting has at most a kilobyte.
        mac.update(&(self.hello.len() as u32).to_le_bytes());
        mac.update(&self.hello);
        mac.update(&self.ack);
        mac
    }

    pub(super) fn proof(&self, key: &MacKey, side: Side) -> [u8; 32] {
        self.mac(key, side).finalize().into_bytes().into()
    }
}

/// The body of a `Hello`. Whoever has received it writes the same bytes, as no field of it has two forms.
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

/// A hash under this key.
pub(super) fn keyed(key: &[u8]) -> HmacSha256 {
    match HmacSha256::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of every length"),
    }
}
