//! Every bound of a TLS connection beside those of rustls itself (64 KiB of a handshake, 16 KiB of a record).

/// Bytes encrypted at a time before the socket is asked to take them: of what it does not take, no more waits.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Reads in a row of one socket that bring nothing to say: a handshake needs some ten. Beyond that somebody keeps the
/// connection busy with messages of the protocol itself.
pub const SILENT_READS_MAX: usize = 256;

/// Longest file of certificates or of a key.
pub const PEM_BYTES_MAX: usize = 1 << 20;
