//! The gateway for clients of S3 beside the nodes.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use zerohop_client::{Client, ClientOptions};

use crate::common::ending::CommandError;
use crate::common::secret::SecretPlace;
use crate::common::tls::NodeTls;
use crate::local::LocalNode;
use crate::s3::keyspaces::OBJECTS;
use crate::s3::log;
use crate::s3::running::{BoundListeners, CLIENT_NAME, GatewaySettings, RunningGateway};
use crate::s3::tls::GatewayTls;

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
    /// The port on 127.0.0.1 for monitoring programs, which get /metrics and /health of the gateway there. 0 chooses a
    /// free port.
    #[arg(long, value_name = "PORT", requires = "s3_port")]
    s3_metrics: Option<u16>,
    #[command(flatten)]
    gateway_tls: GatewayTls,
}

impl UpS3 {
    /// Takes the ports, and starts the log of the gateway; `None`: there is no gateway.
    pub(super) async fn listen(&self, log_level: &str) -> Result<Option<BoundListeners>, CommandError> {
        let Some(port) = self.s3_port else {
            return match self.gateway_tls.is_given() {
                true => Err(CommandError::Usage(
                    "--s3-tls-cert, --s3-tls-key and --s3-no-tls are for a gateway, which --s3 starts"
                        .to_owned(),
                )),
                false => Ok(None),
            };
        };
        // An error in the certificate ends the start before there is a node.
        self.gateway_tls.serving(|| Ok(None))?;
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening = BoundListeners::bind(local(port), self.s3_metrics.map(local)).await?;
        log(log_level)?;
        Ok(Some(listening))
    }

    /// Serves clients of S3 as a client of these nodes.
    pub(super) async fn start(
        &self,
        listening: BoundListeners,
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
            keyspace: OBJECTS.to_owned(),
            region: self.s3_region.clone(),
            domains: self.s3_domain.clone(),
            secret,
            tls: self.gateway_tls.serving(|| Ok(server))?,
            browse: false,
        };
        RunningGateway::start(listening, client, settings).await
    }
}
