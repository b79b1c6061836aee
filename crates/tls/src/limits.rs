//! Every limit of a TLS connection beside those of rustls (64 KiB of a handshake, 16 KiB of a
//! record).

/// Bytes encrypted before the next write to the socket: at most so many wait for a full socket.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Consecutive reads of one socket without plain bytes; a handshake needs some ten. Beyond it the
/// peer only sends messages of the protocol itself.
pub const SILENT_READS_MAX: usize = 256;

/// Bytes that are read and discarded after the peer has violated TLS; more than a greeting has.
pub const DRAINED_BYTES_MAX: usize = 64 << 10;

/// Longest file of certificates or of a key.
pub const PEM_BYTES_MAX: usize = 1 << 20;

/// The year 10000 in seconds since 1970, later than the end of any certificate.
pub(crate) const FAR_FUTURE_S: u64 = 253_402_300_800;
