//! The locations of certificates and keys: of the CAs that clients and nodes trust, of the clients, and of the nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::OsStringValueParser;
use zerohop_client::{ClientTls, ConfigError, read_key};
use zerohop_server::TlsOptions;
use zerohop_tls::ServerTls;
use zerohop_tls::limits::PEM_BYTES_MAX;

use super::ending::CommandError;
use super::names;

/// The variables that name the files; empty: no file.
pub(crate) const CERT_VARIABLE: &str = "ZEROHOP_TLS_CERT";
/// See [`CERT_VARIABLE`].
pub(crate) const KEY_VARIABLE: &str = "ZEROHOP_TLS_KEY";
/// See [`CERT_VARIABLE`].
pub(crate) const CA_VARIABLE: &str = "ZEROHOP_TLS_CA";

/// See [`CERT_VARIABLE`].
pub(crate) const CLIENT_CA_VARIABLE: &str = "ZEROHOP_TLS_CLIENT_CA";

/// Of every command that talks to a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterTls {
    #[command(flatten)]
    ca: TlsCa,
    /// The PEM file of the certificate of this client, for nodes with --tls-client-ca; needs --tls-ca too.
    #[arg(long, env = CERT_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_cert: Option<OsString>,
    /// The PEM file of the private key of the certificate. Only its owner may have read permission.
    #[arg(long, env = KEY_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_key: Option<OsString>,
}

/// The CA of the nodes.
#[derive(Args, Clone, Debug)]
struct TlsCa {
    /// Uses TLS. The PEM file of the CA certificate that verifies the certificates of the nodes.
    #[arg(long, env = CA_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_ca: Option<OsString>,
}

/// Of every command that starts nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeTls {
    /// Accepts TLS connections. The PEM file of the certificate of this node; `zerohop tls new` creates one.
    #[arg(long, env = CERT_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_cert: Option<OsString>,
    /// The PEM file of the private key of the certificate. Only its owner may have read permission.
    #[arg(long, env = KEY_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_key: Option<OsString>,
    #[command(flatten)]
    ca: TlsCa,
    /// Serves only clients with a certificate. The PEM file of the CA certificate that verifies the certificates of
    /// clients, and of the nodes as clients of each other.
    #[arg(long, env = CLIENT_CA_VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    tls_client_ca: Option<OsString>,
    /// Refuses connections without TLS from other machines.
    #[arg(long)]
    tls_only: bool,
}

impl TlsCa {
    fn path(&self) -> Option<&Path> {
        path_if_set(self.tls_ca.as_ref())
    }

    /// The CA to trust, if TLS is on, and the certificate and key to present.
    fn read(&self, identity: Option<(&Path, &[u8])>) -> Result<Option<ClientTls>, CommandError> {
        let Some(path) = self.path() else { return Ok(None) };
        let ca = public(path)?;
        let trusting = ClientTls::new(&ca).map_err(|error| unusable(path, &error))?;
        let Some((certificate, key)) = identity else { return Ok(Some(trusting)) };
        let presenting = ClientTls::with_identity(&ca, &public(certificate)?, key);
        presenting.map(Some).map_err(|error| unusable(certificate, &error))
    }
}

impl ClusterTls {
    /// The TLS settings of a client, if TLS is on.
    pub(crate) fn read(&self) -> Result<Option<ClientTls>, CommandError> {
        let own = (path_if_set(self.tls_cert.as_ref()), path_if_set(self.tls_key.as_ref()));
        match (own.0, own.1, self.ca.path()) {
            (None, None, _) => self.ca.read(None),
            // The variables may be there for nodes that are started from the same shell.
            (certificate, key, None)
                if certificate.is_none_or(|path| is_variable(CERT_VARIABLE, path))
                    && key.is_none_or(|path| is_variable(KEY_VARIABLE, path)) =>
            {
                Ok(None)
            }
            (Some(certificate), Some(key), Some(_)) => {
                let key = read_key(key).map_err(CommandError::Secret)?;
                self.ca.read(Some((certificate, &key)))
            }
            _ => Err(CommandError::Usage(
                "a client with a certificate needs all of --tls-cert, --tls-key and --tls-ca (or their variables)".to_owned(),
            )),
        }
    }

    /// The TLS settings of a gateway for its own clients, if it has a certificate.
    pub(crate) fn serving(&self) -> Result<Option<ServerTls>, CommandError> {
        let own = (path_if_set(self.tls_cert.as_ref()), path_if_set(self.tls_key.as_ref()), self.ca.path());
        let (Some(certificate), Some(key), Some(_)) = own else { return Ok(None) };
        read_serving(certificate, key).map(Some)
    }
}

impl NodeTls {
    /// The TLS options of a node, if TLS is on.
    pub(crate) fn read(&self) -> Result<Option<TlsOptions>, CommandError> {
        let usage = |what: &str| Err(CommandError::Usage(what.to_owned()));
        let client_ca = path_if_set(self.tls_client_ca.as_ref());
        match (path_if_set(self.tls_cert.as_ref()), path_if_set(self.tls_key.as_ref()), self.ca.path()) {
            (None, None, None) if !self.tls_only && client_ca.is_none() => Ok(None),
            (Some(certificate), Some(key), ca) => {
                if self.tls_only && ca.is_none() {
                    return usage("--tls-only needs --tls-ca too: nodes speak TLS with each other by it");
                }
                if client_ca.is_some() && ca.is_none() {
                    return usage(
                        "--tls-client-ca needs --tls-ca too: nodes speak TLS with each other by it",
                    );
                }
                let read = read_key(key).map_err(CommandError::Secret)?;
                let presented = public(certificate)?;
                let mut server =
                    ServerTls::new(&presented, &read).map_err(|error| unusable(certificate, &error))?;
                let client = self.ca.read(Some((certificate, &read)))?;
                if let Some(path) = client_ca {
                    server = ServerTls::with_client_cas(&presented, &read, &public(path)?)
                        .map_err(|error| unusable(path, &error))?;
                }
                Ok(Some(TlsOptions { server, client, only: self.tls_only }))
            }
            _ => usage(
                "a node that speaks TLS needs --tls-cert and --tls-key, and --tls-ca to speak it with other nodes: `zerohop tls \
                 new` makes all three",
            ),
        }
    }

    /// The options, each after a space, that clients of such a node need. A client's own certificate has no path here.
    pub(crate) fn client_options(&self) -> String {
        let Some(ca) = self.ca.path() else { return String::new() };
        let own = match path_if_set(self.tls_client_ca.as_ref()) {
            Some(_) => " --tls-cert CERTIFICATE --tls-key KEY",
            None => "",
        };
        format!(" --tls-ca {}{own}", names::in_shell(ca))
    }

    /// The options, each after a space, of another node of the same cluster on this machine.
    pub(crate) fn node_options(&self) -> String {
        let option = |name: &str, path: Option<&Path>| {
            path.map_or(String::new(), |path| format!(" {name} {}", names::in_shell(path)))
        };
        [
            option("--tls-cert", path_if_set(self.tls_cert.as_ref())),
            option("--tls-key", path_if_set(self.tls_key.as_ref())),
            option("--tls-ca", self.ca.path()),
            option("--tls-client-ca", path_if_set(self.tls_client_ca.as_ref())),
            if self.tls_only { " --tls-only".to_owned() } else { String::new() },
        ]
        .concat()
    }

    /// The variables that pass these options to a child process.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 4] {
        let path = |path: Option<&Path>| path.map(Path::to_owned).unwrap_or_default();
        [
            (CERT_VARIABLE, path(path_if_set(self.tls_cert.as_ref()))),
            (KEY_VARIABLE, path(path_if_set(self.tls_key.as_ref()))),
            (CA_VARIABLE, path(self.ca.path())),
            (CLIENT_CA_VARIABLE, path(path_if_set(self.tls_client_ca.as_ref()))),
        ]
    }

    /// Whether connections without TLS are refused.
    pub(crate) fn is_only(&self) -> bool {
        self.tls_only
    }

    /// No TLS, whatever the environment says.
    pub(crate) fn none() -> NodeTls {
        NodeTls {
            tls_cert: None,
            tls_key: None,
            ca: TlsCa { tls_ca: None },
            tls_client_ca: None,
            tls_only: false,
        }
    }
}

fn path_if_set(path: Option<&OsString>) -> Option<&Path> {
    path.filter(|path| !path.is_empty()).map(Path::new)
}

/// Reads the certificate and key of a gateway.
pub(crate) fn read_serving(certificate: &Path, key: &Path) -> Result<ServerTls, CommandError> {
    let key = read_key(key).map_err(CommandError::Secret)?;
    ServerTls::new(&public(certificate)?, &key).map_err(|error| unusable(certificate, &error))
}

/// Whether this path is the value of a variable.
fn is_variable(name: &str, path: &Path) -> bool {
    std::env::var_os(name).is_some_and(|value| value == path.as_os_str())
}

/// Reads a file that need not be private.
fn public(path: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |error: std::io::Error| CommandError::system("reading", path, &error);
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > PEM_BYTES_MAX as u64 {
        return Err(CommandError::Usage(format!("{}: {bytes} bytes are no certificate", names::path(path))));
    }
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    std::fs::read(path).map_err(failed)
}

fn unusable(path: &Path, error: &ConfigError) -> CommandError {
    CommandError::Usage(format!("{}: {error}", names::path(path)))
}
