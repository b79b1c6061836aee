//! Certificates and keys, parsed from PEM text.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::ConfigError;

/// The certificate chain and key of a server. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// The CAs that a client trusts. Clones share it.
#[derive(Clone, Debug)]
pub struct ClientTls(pub(crate) Arc<ClientConfig>);

impl ServerTls {
    /// From PEM: the certificate, followed by the intermediate CAs' up to one that clients trust,
    /// and its key.
    ///
    /// # Errors [`ConfigError`].
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<ServerTls, ConfigError> {
        let chain = certificates_of(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| ConfigError::Pem { what: "private key", reason: error.to_string() })?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        // Connections live long, so session resumption is not worth its memory.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerTls(Arc::new(config)))
    }
}

impl ClientTls {
    /// Trusts certificates by these CAs, given as PEM, and no others.
    ///
    /// # Errors [`ConfigError`].
    pub fn new(cas: &[u8]) -> Result<ClientTls, ConfigError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of(cas)? {
            roots.add(certificate).map_err(unusable)?;
        }
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(ClientTls(Arc::new(config)))
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ServerTls {}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientTls {}

/// The host of `host:port`, without the brackets of an IPv6 address: the certificate must name it.
#[must_use]
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let wrong = |reason: String| ConfigError::Pem { what: "certificate", reason };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong("there is none".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(error: rustls::Error) -> ConfigError {
    ConfigError::Unusable { reason: error.to_string() }
}
