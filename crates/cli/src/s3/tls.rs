//! The certificate of a gateway for clients of S3, if it is not that of the nodes.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use clap::builder::OsStringValueParser;
use zerohop_tls::ServerTls;

use crate::common::ending::CommandError;
use crate::common::tls::read_serving;

#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayTls {
    /// Serves clients of S3 over TLS by this certificate, whether the nodes have TLS or not. The PEM file of the
    /// certificate.
    #[arg(long, value_name = "PATH", requires = "s3_tls_key", value_parser = OsStringValueParser::new())]
    s3_tls_cert: Option<OsString>,
    /// The PEM file of the private key of this certificate. Only its owner may have read permission.
    #[arg(long, value_name = "PATH", requires = "s3_tls_cert", value_parser = OsStringValueParser::new())]
    s3_tls_key: Option<OsString>,
    /// Serves clients of S3 without TLS, although there is a certificate for the nodes.
    #[arg(long, conflicts_with = "s3_tls_cert")]
    s3_no_tls: bool,
}

impl GatewayTls {
    /// The certificate for clients of S3, by default that of the nodes.
    pub(crate) fn serving(
        &self,
        of_nodes: impl FnOnce() -> Result<Option<ServerTls>, CommandError>,
    ) -> Result<Option<ServerTls>, CommandError> {
        match (&self.s3_tls_cert, &self.s3_tls_key) {
            _ if self.s3_no_tls => Ok(None),
            (Some(certificate), Some(key)) => read_serving(Path::new(certificate), Path::new(key)).map(Some),
            _ => of_nodes(),
        }
    }

    /// Whether any of these options is given.
    pub(crate) fn is_given(&self) -> bool {
        self.s3_no_tls || self.s3_tls_cert.is_some() || self.s3_tls_key.is_some()
    }
}
