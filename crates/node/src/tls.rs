//! Whether a node speaks TLS, and with whom.

use zerohop_tls::{ClientTls, ServerTls};

/// How a node speaks TLS. Beside that it serves who connects without, unless it is told otherwise: what a connection is, its
/// first byte tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// What it shows to those who connect.
    pub server: ServerTls,
    /// Of whom the other nodes' certificates must be: then it speaks TLS with all of them. `None`: with none.
    pub client: Option<ClientTls>,
    /// Who connects from another machine without TLS is told so, and not served.
    pub only: bool,
}
