//! Why a TLS connection cannot be made, as the wire's error codes.

use std::fmt;
use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use zerohop_wire::AuthFault;
use zerohop_wire::plurals::UtcTime;

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
    /// The certificate of a server that requires certificates would be refused by servers with the same settings.
    OwnCertificate {
        /// The reason.
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
            ConfigError::OwnCertificate { reason } => write!(
                f,
                "this node's certificate lacks the client usage, or the CA of the clients has not issued it, so the other nodes would \
                 refuse it. `zerohop tls new` and `add` make certificates for both uses ({reason})"
            ),
            ConfigError::Unusable { reason } => {
                write!(f, "certificate and key cannot be used together: {reason}")
            }
        }
    }
}

/// The side of a connection that reports an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The cause of a connection's end, which [`fault_of`] extracts from an [`io::Error`].
#[derive(Debug)]
struct ConnectionFault {
    side: Side,
    fault: AuthFault,
    /// When the certificate that is refused has expired, in seconds since 1970.
    expired_s: Option<u64>,
    reason: Error,
}

impl std::error::Error for ConnectionFault {}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.side, self.fault) {
            (Side::Server, AuthFault::ClientCertificateWanted) => {
                "the client presents no certificate, and clients need one by the CA of --tls-client-ca"
            }
            (Side::Server, AuthFault::ClientCertificate) => {
                "the client's certificate is not one by the CA of --tls-client-ca, or is not for clients"
            }
            (Side::Server, AuthFault::ClientCertificateTime) => {
                "the client's certificate has expired or is not valid yet, or a clock is wrong"
            }
            (_, fault) => fault.text(),
        };
        match self.expired_s {
            Some(expired_s) => write!(f, "{words} (it has expired on {})", UtcTime(expired_s)),
            None => write!(f, "{words} ({})", self.reason),
        }
    }
}

/// Why TLS ended a connection; `None` if the error is not from TLS.
#[must_use]
pub fn fault_of(error: &io::Error) -> Option<AuthFault> {
    Some(error.get_ref()?.downcast_ref::<ConnectionFault>()?.fault)
}

/// When the certificate has expired because of which a connection failed, in seconds since 1970; `None`: it has not, or that is
/// not known.
#[must_use]
pub fn expired_of(error: &io::Error) -> Option<u64> {
    error.get_ref()?.downcast_ref::<ConnectionFault>()?.expired_s
}

/// Why a server refuses the certificate of a client, or the lack of one; `None`: the error is another. The error's text is
/// for the server's log.
#[must_use]
pub fn refused_client(error: &io::Error) -> Option<AuthFault> {
    let fault = error.get_ref()?.downcast_ref::<ConnectionFault>()?;
    let is_about_client = matches!(
        fault.fault,
        AuthFault::ClientCertificateWanted | AuthFault::ClientCertificate | AuthFault::ClientCertificateTime
    );
    (fault.side == Side::Server && is_about_client).then_some(fault.fault)
}

/// Whether a certificate has expired, or is not valid yet.
pub(crate) fn is_about_time(error: &CertificateError) -> bool {
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
    )
}

/// Whether a certificate has expired.
fn has_expired(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Expired | CertificateError::ExpiredContext { .. })
}

/// The error of a connection whose peer violates TLS. Its kind is
/// [`InvalidData`](io::ErrorKind::InvalidData). `own_ends_s`: when the certificate of this side expires, in seconds since 1970.
pub(crate) fn ended(side: Side, own_ends_s: Option<u64>, reason: Error) -> io::Error {
    use CertificateError::{ExpiredContext, NotValidForName, NotValidForNameContext};
    let fault = match (side, &reason) {
        (Side::Client, Error::AlertReceived(alert)) => fault_of_alert(*alert),
        (Side::Server, Error::NoCertificatesPresented) => AuthFault::ClientCertificateWanted,
        (Side::Server, Error::InvalidCertificate(error)) if is_about_time(error) => {
            AuthFault::ClientCertificateTime
        }
        (Side::Server, Error::InvalidCertificate(_)) => AuthFault::ClientCertificate,
        (Side::Client, Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
            AuthFault::CertificateName
        }
        (Side::Client, Error::InvalidCertificate(error)) if has_expired(error) => {
            AuthFault::CertificateExpired
        }
        (Side::Client, Error::InvalidCertificate(error)) if is_about_time(error) => {
            AuthFault::CertificateTime
        }
        (Side::Client, Error::InvalidCertificate(_)) => AuthFault::Certificate,
        (_, Error::InvalidMessage(InvalidMessage::InvalidContentType)) => AuthFault::NoTlsThere,
        _ => AuthFault::Tls,
    };
    let expired_s = match &reason {
        Error::InvalidCertificate(ExpiredContext { not_after, .. }) => Some(not_after.as_secs()),
        // An alert has no time.
        Error::AlertReceived(_) if fault == AuthFault::ClientCertificateTime => {
            own_ends_s.filter(|ends_s| *ends_s < UnixTime::now().as_secs())
        }
        _ => None,
    };
    io::Error::new(io::ErrorKind::InvalidData, ConnectionFault { side, fault, expired_s, reason })
}

/// What a server reports by an alert. With TLS 1.3 a server refuses the client's certificate after the client considers the
/// handshake done, and only the alert has the reason.
fn fault_of_alert(alert: AlertDescription) -> AuthFault {
    match alert {
        AlertDescription::CertificateRequired => AuthFault::ClientCertificateWanted,
        AlertDescription::CertificateExpired => AuthFault::ClientCertificateTime,
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied
        // The signature is by another CA of the same name: all that `zerohop tls new` makes have one name.
        | AlertDescription::DecryptError => AuthFault::ClientCertificate,
        _ => AuthFault::Tls,
    }
}
