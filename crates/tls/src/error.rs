//! Why a TLS connection cannot be made, as the wire's error codes.

use std::fmt;
use std::io;

use rustls::{CertificateError, Error, InvalidMessage};
use zerohop_wire::AuthFault;

/// Why certificates and keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file has none, or cannot be parsed.
    Pem {
        /// What was expected.
        what: &'static str,
        /// What was found.
        reason: String,
    },
    /// They do not match, or cannot be used.
    Unusable {
        /// The reason.
        reason: String,
    },
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Pem { what, reason } => write!(f, "it holds no {what} as PEM has it: {reason}"),
            ConfigError::Unusable { reason } => {
                write!(f, "certificate and key cannot be used together: {reason}")
            }
        }
    }
}

/// The cause of a connection's end, which [`fault_of`] extracts from an [`io::Error`].
#[derive(Debug)]
struct ConnectionFault {
    fault: AuthFault,
    reason: Error,
}

impl std::error::Error for ConnectionFault {}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.fault, self.reason)
    }
}

/// Why TLS ended a connection; `None` if the error is not from TLS.
#[must_use]
pub fn fault_of(error: &io::Error) -> Option<AuthFault> {
    Some(error.get_ref()?.downcast_ref::<ConnectionFault>()?.fault)
}

/// The error of a connection whose peer violates TLS. Its kind is
/// [`InvalidData`](io::ErrorKind::InvalidData).
pub(crate) fn ended(reason: Error) -> io::Error {
    let fault = match &reason {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => AuthFault::CertificateName,
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => AuthFault::CertificateTime,
        Error::InvalidCertificate(_) => AuthFault::Certificate,
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => AuthFault::NoTlsThere,
        _ => AuthFault::Tls,
    };
    io::Error::new(io::ErrorKind::InvalidData, ConnectionFault { fault, reason })
}
