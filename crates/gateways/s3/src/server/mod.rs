//! The gateway: its options, the connections that it accepts, and the sweep.

mod browse;
mod connection;
mod connection_slots;
mod counted_users;
mod cross_origin;
mod document_numbers;
mod documents;
mod error_details;
mod error_messages;
mod monitor;
mod refusal;
mod request;
mod request_record;
mod rule_pass;
mod stream;
mod timed_body;
mod unreadable_range;
mod unsupported;
mod xml_characters;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use s3s::config::{S3Config, StaticConfigProvider};
use s3s::host::MultiDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use zerohop_client::Secret;
use zerohop_objects::{Lifetimes, Store, Sweep, run};
use zerohop_tls::ServerTls;

use self::connection_slots::ConnectionPlaces;
use self::counted_users::CountedUsers;
use crate::access::{RequestAccess, UserAccess, Users};
use crate::api::ObjectApi;
use crate::metrics::GatewayMetrics;

pub use self::connection_slots::ConnectionLimits;
pub use self::monitor::GatewayMonitor;

/// The most bytes of a document, such as the list of a bulk delete.
const DOCUMENT_MAX: usize = 2 << 20;
/// The most bytes of an object that a form posts: s3s gathers it in memory.
const POST_MAX: u64 = 64 << 20;
/// The most requests at a time. A put has about 4 MiB of its body in memory.
const REQUESTS_MAX: usize = 256;
/// The most requests at a time whose document or form is gathered in memory.
const DOCUMENTS_MAX: usize = 8;

/// The timers of one sweep.
const SWEEP_PAGE: usize = 1000;
/// The longest wait for requests under way when a gateway stops.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Between two sweeps. With the lifetimes of bodies it stays below 10 minutes.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);

/// What a gateway is started with.
pub struct GatewayOptions {
    /// The region that clients are shown.
    pub region: String,
    /// The domains below which a bucket is a host; none for paths only.
    pub domains: Vec<String>,
    /// The users.
    pub users: Arc<dyn Users>,
    /// How long bodies stay that nothing names.
    pub lifetimes: Lifetimes,
    /// The least size of a part that is not the last.
    pub part_size_min: u64,
    /// How long a body may stop.
    pub idle_body: Duration,
    /// How long a connection has for the head of its first request.
    pub first_head: Duration,
    /// The most connections.
    pub connections: ConnectionLimits,
    /// The certificate, if every connection is one of TLS.
    pub tls: Option<ServerTls>,
    /// About how long it is from one pass over the buckets with lifecycle rules to the next.
    pub rule_pause: Duration,
    /// Whether browsers get a page of the objects of a public bucket.
    pub browse: bool,
}

impl GatewayOptions {
    /// The options of S3 itself, with these users.
    #[must_use]
    pub fn new(users: Arc<dyn Users>) -> Self {
        Self {
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            users,
            lifetimes: Lifetimes::default(),
            part_size_min: 5 << 20,
            idle_body: Duration::from_secs(60),
            first_head: Duration::from_secs(5),
            connections: ConnectionLimits::default(),
            tls: None,
            rule_pause: Duration::from_secs(3600),
            browse: false,
        }
    }
}

/// A gateway: it answers requests of S3 over a store.
pub struct S3Gateway<S> {
    store: Arc<S>,
    lifetimes: Lifetimes,
    service: S3Service,
    region: Arc<str>,
    domains: Arc<[String]>,
    idle_body: Duration,
    first_head: Duration,
    tls: Option<ServerTls>,
    rule_pause: Duration,
    browse: bool,
    places: ConnectionPlaces,
    users: Arc<CountedUsers>,
    metrics: Arc<GatewayMetrics>,
    requests: Arc<Semaphore>,
    documents: Arc<Semaphore>,
}

impl<S> Clone for S3Gateway<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            lifetimes: self.lifetimes,
            service: self.service.clone(),
            region: Arc::clone(&self.region),
            domains: Arc::clone(&self.domains),
            idle_body: self.idle_body,
            first_head: self.first_head,
            tls: self.tls.clone(),
            rule_pause: self.rule_pause,
            browse: self.browse,
            places: self.places.clone(),
            users: Arc::clone(&self.users),
            metrics: Arc::clone(&self.metrics),
            requests: Arc::clone(&self.requests),
            documents: Arc::clone(&self.documents),
        }
    }
}

impl<S: Store + 'static> S3Gateway<S> {
    /// A gateway over `store`.
    ///
    /// # Errors
    /// If a domain is none.
    pub fn new(store: Arc<S>, options: GatewayOptions) -> Result<Self, String> {
        let region = options.region.as_str().into();
        let api = ObjectApi::new(
            Arc::clone(&store),
            options.lifetimes,
            options.region,
            options.part_size_min,
            options.idle_body,
        );
        let metrics = Arc::<GatewayMetrics>::default();
        let users = Arc::new(CountedUsers { users: options.users, metrics: Arc::clone(&metrics) });
        let mut config = S3Config::default();
        config.xml_max_body_size = DOCUMENT_MAX;
        config.post_object_max_file_size = POST_MAX;
        let mut builder = S3ServiceBuilder::new(api);
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        builder.set_auth(UserAccess(Arc::<CountedUsers>::clone(&users)));
        let users_of_requests = UserAccess(Arc::<CountedUsers>::clone(&users));
        builder.set_access(RequestAccess { users: users_of_requests, store: Arc::clone(&store) });
        if !options.domains.is_empty() {
            let host = MultiDomain::new(options.domains.iter()).map_err(|error| error.to_string())?;
            builder.set_host(host);
        }
        Ok(Self {
            store,
            lifetimes: options.lifetimes,
            service: builder.build(),
            region,
            domains: options.domains.into(),
            idle_body: options.idle_body,
            first_head: options.first_head,
            tls: options.tls,
            rule_pause: options.rule_pause,
            browse: options.browse,
            places: ConnectionPlaces::new(options.connections),
            users,
            metrics,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            documents: Arc::new(Semaphore::new(DOCUMENTS_MAX)),
        })
    }

    /// What monitoring programs learn of this gateway. With a secret, only its bearer text gives access to the metrics.
    #[must_use]
    pub fn monitor(&self, secret: Option<Secret>) -> GatewayMonitor<S> {
        GatewayMonitor {
            store: Arc::clone(&self.store),
            users: Arc::clone(&self.users.users),
            metrics: Arc::clone(&self.metrics),
            tls: self.tls.clone(),
            secret,
            probed: Mutex::default(),
        }
    }

    /// Answers the connections of `listener` until `stop` ends. Then no connection is accepted, and each ends behind the request
    /// that it answers, or after ten seconds.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (serving, _) = watch::channel(());
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => match self.places.take(address.ip().to_canonical()) {
                        Some(place) => {
                            connections.spawn(self.clone().connection(stream, place, serving.subscribe()));
                        }
                        None => {
                            self.metrics.connection_refused();
                            connection::refuse(&stream, self.tls.is_some());
                        }
                    },
                    // The process has no descriptors left, or the client is gone already.
                    Err(error) => {
                        tracing::warn!(%error, "S3 connection not accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        self.metrics.stop();
        drop((listener, serving));
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
            tracing::warn!("requests of S3 end without an answer: they take too long");
        }
    }

    /// Deletes bodies that nothing names, and what lifecycle rules let expire, again and again, until the task is dropped.
    /// Several gateways may do so at once.
    pub async fn sweep(self) {
        tokio::join!(self.sweep_bodies(), rule_pass::repeat(&*self.store, self.lifetimes, self.rule_pause));
    }

    async fn sweep_bodies(&self) {
        loop {
            let swept = run(&*self.store, Sweep::new(self.lifetimes, SWEEP_PAGE)).await;
            self.metrics.swept(&swept);
            match swept {
                // There may be more: a full page is followed at once.
                Ok(report) if report.timers == SWEEP_PAGE as u64 => continue,
                Ok(report) if report.bodies > 0 => {
                    tracing::debug!(bodies = report.bodies, "S3 sweep finished")
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "S3 sweep failed"),
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
    }
}
