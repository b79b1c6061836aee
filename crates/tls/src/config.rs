//! Certificates and keys, parsed from PEM text.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};

use crate::error::{ConfigError, is_about_time};
use crate::limits::FAR_FUTURE_S;

/// The certificate chain and key of a server, and the CAs of its clients. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    requires_certificates: bool,
}

/// The CAs that a client trusts, and the certificate that it presents, if any. Clones share it.
#[derive(Clone, Debug)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    /// When the certificate that it presents expires, in seconds since 1970.
    pub(crate) own_ends_s: Option<u64>,
}

impl ServerTls {
    /// From PEM: the certificate, followed by the intermediate CAs' up to one that clients trust,
    /// and its key.
    ///
    /// # Errors [`ConfigError`].
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<ServerTls, ConfigError> {
        ServerTls::with_verifier(certificates, key, None)
    }

    /// As [`ServerTls::new`], and serves only clients with a certificate by one of `client_cas`, which is PEM too. The server
    /// presents its own certificate to other servers, so that must be by one of them.
    ///
    /// # Errors [`ConfigError`]; [`ConfigError::OwnCertificate`] if other servers would refuse this one.
    pub fn with_client_cas(
        certificates: &[u8],
        key: &[u8],
        client_cas: &[u8],
    ) -> Result<ServerTls, ConfigError> {
        let roots = Arc::new(roots_of(client_cas)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| ConfigError::Unusable { reason: error.to_string() })?;
        if let Some((own, chain)) = certificates_of(certificates)?.split_first() {
            match verifier.verify_client_cert(own, chain, UnixTime::now()) {
                // A node with an expired certificate starts, and its peers report it.
                Err(Error::InvalidCertificate(error)) if !is_about_time(&error) => {
                    return Err(ConfigError::OwnCertificate { reason: error.to_string() });
                }
                _ => {}
            }
        }
        ServerTls::with_verifier(certificates, key, Some(verifier))
    }

    /// Whether clients need a certificate.
    #[must_use]
    pub fn requires_certificates(&self) -> bool {
        self.requires_certificates
    }

    fn with_verifier(
        certificates: &[u8],
        key: &[u8],
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<ServerTls, ConfigError> {
        let requires_certificates = verifier.is_some();
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(certificates_of(certificates)?, key_of(key)?).map_err(unusable)?;
        // Connections live long, so session resumption is not worth its memory.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerTls { config: Arc::new(config), requires_certificates })
    }
}

impl ClientTls {
    /// Trusts certificates by these CAs, given as PEM, and no others.
    ///
    /// # Errors [`ConfigError`].
    pub fn new(cas: &[u8]) -> Result<ClientTls, ConfigError> {
        ClientTls::with_identity_if_any(cas, None)
    }

    /// As [`ClientTls::new`], and presents a certificate to servers that require one: the certificate, followed by the
    /// intermediate CAs' up to one that the servers trust, and its key; all as PEM.
    ///
    /// # Errors [`ConfigError`].
    pub fn with_identity(cas: &[u8], certificates: &[u8], key: &[u8]) -> Result<ClientTls, ConfigError> {
        ClientTls::with_identity_if_any(cas, Some((certificates, key)))
    }

    fn with_identity_if_any(cas: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientTls, ConfigError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots_of(cas)?);
        let mut own_ends_s = None;
        let mut config = match identity {
            Some((certificates, key)) => {
                let chain = certificates_of(certificates)?;
                own_ends_s = end_of(&chain, roots_of(cas)?);
                builder.with_client_auth_cert(chain, key_of(key)?).map_err(unusable)?
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(ClientTls { config: Arc::new(config), own_ends_s })
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ServerTls {}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
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

fn roots_of(pem: &[u8]) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(pem)? {
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(roots)
}

/// When the first of these certificates expires, in seconds since 1970. The time is checked before the CA.
fn end_of(chain: &[CertificateDer<'_>], any_roots: RootCertStore) -> Option<u64> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(any_roots), provider());
    let (own, chain) = chain.split_first()?;
    let never = UnixTime::since_unix_epoch(Duration::from_secs(FAR_FUTURE_S));
    match builder.build().ok()?.verify_client_cert(own, chain, never) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(not_after.as_secs())
        }
        _ => None,
    }
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|error| ConfigError::Pem { what: "private key", reason: error.to_string() })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(error: rustls::Error) -> ConfigError {
    ConfigError::Unusable { reason: error.to_string() }
}
