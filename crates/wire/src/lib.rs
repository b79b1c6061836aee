//! The wire format between clients, nodes and instances: ids, timestamps, limits, error codes and frames.
//!
//! This is the lowest floor. It encodes and decodes; it opens no socket, reads no clock and has no state. `docs/protocols/wire.md` specifies every
//! byte, so that clients in other languages can be written from it.
//!
//! ```text
//!            Envelope + Message ──Encoder──▶ bytes ──Decoder──▶ Frame ──message()──▶ Message
//!
//! a frame:   header (48 bytes, own checksum) │ fixed fields of the kind │ key │ payload
//!                                            └────────── body, own checksum ──────────┘
//! ```
//!
//! Payloads are not copied into another body: decoding borrows from the receive buffer, and [`Encoder::encode_split`] returns a large payload so
//! that the caller sends it without a copy.

pub mod admin;
mod answer_gathering;
pub mod auth;
pub mod checksum;
mod compress;
pub mod contents;
mod decode;
mod encode;
pub mod escaped;
mod header;
pub mod messages;
mod tail;
mod version;

pub use answer_gathering::AnswerGathering;
pub use decode::{BrokenStream, DecodeResult, Decoder, Frame};
pub use encode::Encoder;
pub use header::{Envelope, Flags, FrameHeader, HEADER_BYTES, MAGIC, TRACE_BYTES, TraceContext};
pub use messages::Message;
pub use tail::Tail;
pub use version::{Features, GREETING_VERSION, choose_version};
pub use zerohop_record::{
    AbortReason, Advice, AuthFault, BadRequestReason, Element, Elements, ErrorCode, Failure, FrameKind,
    Permission, blob, error, ids, limits, pack, plurals,
};
use zerohop_record::{elements, fields, kind};
