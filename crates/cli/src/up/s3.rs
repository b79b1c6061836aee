//! The gateway for clients of S3 beside the nodes.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use zerohop_client::{Client, ClientOptions};

use crate::common::ending::CommandError;
use crate::common::secret::SecretPlace;
use crate::common::tls::NodeTls;
use crate::local::LocalNode;
use crate::s3::log;
use crate::s3::running::{BoundListener, CLIENT_NAME, GatewaySettings, RunningGateway};

/// The keyspace of the names.
const KEYSPACE: &str = "objects";

#[derive(Args, Debug)]
pub(super) struct UpS3 {
    /// Starts a gateway for clients of S3 too, as `zerohop s3` does, at this port on 127.0.0.1. 0 chooses a free port.
    #[arg(long = "s3", value_name = "PORT")]
    s3_port: Option<u16>,
    /// The region that clients of S3 are configured with.
    #[arg(long, value_name = "NAME", default_value = "us-east-1", requires = "s3_port")]
    s3_region: String,
    /// A domain below which each bucket is a host name. May be given several times.
    #[arg(long, value_name = "NAME", requires = "s3_port")]
    s3_domain: Vec<String>,
}

impl UpS3 {
    /// Takes the port, and starts the log of the gateway; `None`: there is no gateway.
    pub(super) async fn listen(&self, log_level: &str) -> Result<Option<BoundListener>, CommandError> {
        let Some(port) = self.s3_port else { return Ok(None) };
        let listening = BoundListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        log(log_level)?;
        Ok(Some(listening))
    }

    /// Serves clients of S3 as a client of these nodes.
    pub(super) async fn start(
        &self,
        listening: BoundListener,
        nodes: &[LocalNode],
        (secret, tls): (&SecretPlace, &NodeTls),
    ) -> Result<RunningGateway, CommandError> {
        let (secret, tls) = (secret.read()?, tls.read()?);
        let (server, client) = tls.map_or((None, None), |tls| (Some(tls.server), tls.client));
        let options = ClientOptions {
            name: CLIENT_NAME.to_owned(),
            secret: secret.clone(),
            tls: client,
            ..ClientOptions::default()
        };
        let endpoints: Vec<&str> = nodes.iter().map(|node| node.ready.manager.as_str()).collect();
        let client = Client::connect_with(&endpoints, options).await.map_err(CommandError::Unreachable)?;
        let settings = GatewaySettings {
            keyspace: KEYSPACE.to_owned(),
            region: self.s3_region.clone(),
            domains: self.s3_domain.clone(),
            secret,
            tls: server,
            browse: false,
        };
        RunningGateway::start(listening, client, settings).await
    }
}
