//! Any bytes as what comes on a connection: refused, or decoded into a message that can be gone through.

use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::{DecodeResult, Decoder, Features};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let features = Features(Features::LZ4.0 | Features::COALESCED.0);
    for decoder in [
        Decoder::before_hello(),
        Decoder::with_version(1, features),
        Decoder::with_version(VERSION_MAX, features),
    ] {
        let mut rest = bytes;
        // As a connection does it: frame after frame, until one breaks it or more is needed.
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            if let Ok(message) = frame.message(&mut Vec::new()) {
                let _ = format!("{message:?}");
            }
            rest = &rest[used..];
        }
    }
}
