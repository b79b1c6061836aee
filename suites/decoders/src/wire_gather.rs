//! Any bytes as a frame of several requests, and of several answers: refused, or gone through part by part; what was read is
//! written the same.

use zerohop_wire::{Envelope, FrameKind, Message};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    for kind in [FrameKind::Gather, FrameKind::Gathered] {
        let Ok(message) = Message::decode_body(kind, bytes) else { continue };
        match &message {
            Message::Gather(requests) => {
                for (request, place) in requests.iter().zip(1..) {
                    let _ = format!(
                        "{:?} {:?}",
                        request.envelope(&Envelope::default(), place),
                        request.message()
                    );
                }
            }
            Message::Gathered(answers) => {
                for answer in answers.iter() {
                    let _ = format!("{:?} {:?}", answer.request, answer.message());
                }
            }
            other => panic!("a body of {kind} is read as {other:?}"),
        }
        let mut again = Vec::new();
        assert_eq!(message.encode_body(&mut again), Ok(kind));
        assert_eq!(again, bytes);
    }
}
