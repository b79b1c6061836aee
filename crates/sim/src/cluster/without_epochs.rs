//! Clients whose requests name no partition epoch, as those of Redis clients: routed by the number
//! alone, they may reach another partition that has the same number by then. Writes of sessions always name one: instances
//! refuse others.

use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::messages::GatheredRequest;
use zerohop_wire::{DecodeResult, Decoder, Elements, Encoder, Envelope, Message};

use crate::node::FEATURES;

/// Whether a request is routed by its keys alone; others, such as scans, name a partition, and writes of a session its epoch.
fn has_keys(message: &Message<'_>) -> bool {
    match message {
        Message::Read { .. } => true,
        Message::Write { stamp, .. } => !stamp.session.is_some(),
        Message::Batch(batch) => !batch.stamp.session.is_some(),
        _ => false,
    }
}

/// The same frames, without the epochs of requests about keys.
pub(super) fn without_epochs(bytes: &[u8]) -> Vec<u8> {
    let decoder = Decoder::with_version(zerohop_wire::limits::VERSION_MAX, FEATURES);
    let encoder = Encoder { version: zerohop_wire::limits::VERSION_MAX, ..Encoder::default() };
    let (mut rest, mut out) = (bytes, Vec::new());
    while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
        let mut scratch = Vec::new();
        let nameless = Envelope { partition_epoch: PartitionEpoch(0), ..frame.envelope };
        let encoded = match frame.message(&mut scratch) {
            Ok(message) if has_keys(&message) => encoder.encode(&nameless, &message, &mut out).is_ok(),
            Ok(Message::Gather(requests)) => {
                let requests: Vec<GatheredRequest<'_>> = requests
                    .iter()
                    .map(|one| match one.message().is_ok_and(|message| has_keys(&message)) {
                        true => GatheredRequest { partition_epoch: PartitionEpoch(0), ..one },
                        false => one,
                    })
                    .collect();
                let message = Message::Gather(Elements::from_slice(&requests));
                encoder.encode(&frame.envelope, &message, &mut out).is_ok()
            }
            _ => false,
        };
        if !encoded {
            out.extend_from_slice(&rest[..used]);
        }
        rest = &rest[used..];
    }
    // The rest is a greeting: it is not a frame of the agreed version.
    out.extend_from_slice(rest);
    out
}
