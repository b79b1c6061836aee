//! Every limit of a TLS connection beside those of rustls (64 KiB of a handshake, 16 KiB of a
//! record).

/// Bytes encrypted before the next write to the socket: at most so many wait for a full socket.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Consecutive reads of one socket without plain bytes; a handshake needs some ten. Beyond it the
/// peer only sends messages of the protocol itself.
pub const SILENT_READS_MAX: usize = 256;

/// Longest file of certificates or of a key.
pub const PEM_BYTES_MAX: usize = 1 << 20;
