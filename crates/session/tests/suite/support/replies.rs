//! Answers of the fake servers as frames.

use zerohop_wire::messages::*;
use zerohop_wire::*;

use super::server::RememberedOutcome;

pub fn answer_of(kept: &RememberedOutcome) -> OperationAnswer<'_> {
    match kept {
        RememberedOutcome::Done { version, number } => {
            Ok(Outcome::Done { version: *version, number: *number })
        }
        RememberedOutcome::Counter { version, value } => {
            Ok(Outcome::Counter { version: *version, value: *value })
        }
        RememberedOutcome::Failed(failure) => Err(failure.clone()),
        RememberedOutcome::Transacted { .. } => panic!("a transaction is answered as one"),
    }
}

pub fn fail(envelope: &Envelope, failure: Failure<'_>) -> Vec<u8> {
    encode(envelope, &Message::Answer(Err(failure)))
}

/// An error that answers a greeting, which has the version of greetings.
pub fn refuse_greeting(envelope: &Envelope, failure: Failure<'static>) -> Vec<u8> {
    let mut out = Vec::new();
    let envelope = Envelope { time_out_ms: 0, ..*envelope };
    Encoder::default().encode(&envelope, &Message::Answer(Err(failure)), &mut out).unwrap();
    out
}

pub fn encode(envelope: &Envelope, message: &Message<'_>) -> Vec<u8> {
    encode_read_locked(envelope, 0, message)
}

pub fn encode_read_locked(envelope: &Envelope, read_lock_us: u32, message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let envelope = Envelope { time_out_ms: read_lock_us, read_lock: false, ..*envelope };
    Encoder::newest_for(message).encode(&envelope, message, &mut out).unwrap();
    out
}
