//! The TLS settings of a node.

use zerohop_tls::{ClientTls, ServerTls};

/// The TLS settings of a node. The node also serves connections without TLS, unless `only` is set: the first byte shows which kind a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate for clients.
    pub server: ServerTls,
    /// The CAs of the other nodes' certificates: the node then uses TLS with all of them. `None`: with none.
    pub client: Option<ClientTls>,
    /// Connections from other machines without TLS get an error, and are not served.
    pub only: bool,
}
