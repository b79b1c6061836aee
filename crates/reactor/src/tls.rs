//! The TLS settings of a node.

use std::io;

use zerohop_system::clock::Stopwatch;
use zerohop_tls::{ClientTls, ServerTls, refused_client};
use zerohop_wire::AuthFault;

/// The TLS settings of a node. The first byte of a connection shows whether it uses TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate for clients, and whether clients need one.
    pub server: ServerTls,
    /// The CAs of the other nodes' certificates, and the own certificate: the node then uses TLS with all of them. `None`: with
    /// none.
    pub client: Option<ClientTls>,
    /// Connections from other machines without TLS get an error, and are not served.
    pub only: bool,
}

impl TlsOptions {
    /// Whether a connection without TLS is refused. `is_near`: it comes from this machine.
    #[must_use]
    pub fn refuses_bare(&self, is_near: bool) -> bool {
        // Without TLS there are no certificates, and this machine has other users too.
        self.server.requires_certificates() || (self.only && !is_near)
    }
}

/// Limits the log lines about clients that are refused because of their certificates: each reason is logged seldom, so that
/// clients cannot fill the log.
#[derive(Debug, Default)]
pub struct CertificateRefusals(Vec<(AuthFault, Stopwatch)>);

impl CertificateRefusals {
    /// Whether to log this error now, at most once in `interval_ms` for each reason.
    pub fn must_log(&mut self, error: &io::Error, interval_ms: u64) -> bool {
        let Some(fault) = refused_client(error) else { return false };
        self.0.retain(|(_, logged)| logged.elapsed_ms() < interval_ms);
        if self.0.iter().any(|(logged, _)| *logged == fault) {
            return false;
        }
        self.0.push((fault, Stopwatch::start()));
        true
    }
}
