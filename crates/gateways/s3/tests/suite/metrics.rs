//! What a gateway reports to monitoring programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use zerohop_client::Secret;
use zerohop_s3::{ConnectionLimits, FixedUsers, GatewayOptions, S3Gateway, User, UserFound, Users};

use crate::memory::MemoryStore;
use crate::signing::SECRET;
use crate::test_gateway::{Answer, SignedRequest, TestGateway};

/// A gateway with an address for monitoring programs.
struct MonitoredGateway {
    gateway: TestGateway,
    /// The same gateway, for sweeps.
    own: S3Gateway<MemoryStore>,
    port: u16,
    stop: Option<oneshot::Sender<()>>,
}

/// Metrics by names and labels.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    #[track_caller]
    fn value(&self, name: &str) -> f64 {
        *self.0.get(&format!("zerohop_{name}")).unwrap_or_else(|| panic!("{name}: {:?}", self.0))
    }

    /// The requests of an operation by a class of statuses.
    #[track_caller]
    fn requests(&self, operation: &str, status: &str) -> f64 {
        self.value(&format!("s3_requests_total{{operation=\"{operation}\",status=\"{status}\"}}"))
    }

    /// The names of operations.
    fn operations(&self) -> Vec<&str> {
        let counts = self.0.keys().filter_map(|name| name.strip_prefix("zerohop_s3_request_seconds_count"));
        counts.filter_map(|labels| labels.split('"').nth(1)).collect()
    }
}

impl MonitoredGateway {
    async fn start(secret: Option<Secret>, change: impl FnOnce(&mut GatewayOptions)) -> Self {
        let store = Arc::new(MemoryStore::default());
        let users = FixedUsers { access_key: Some("tester".to_owned()), secret: SECRET.to_owned() };
        let mut options = GatewayOptions::new(Arc::new(users));
        change(&mut options);
        let own = S3Gateway::new(Arc::clone(&store), options).expect("the options are valid");
        let [clients, monitors] = [
            TcpListener::bind("127.0.0.1:0").await.expect("a port is free"),
            TcpListener::bind("127.0.0.1:0").await.expect("a port is free"),
        ];
        let [port, metrics] =
            [&clients, &monitors].map(|one| one.local_addr().expect("the listener has an address").port());
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(own.monitor(secret).serve(monitors));
        tokio::spawn(own.clone().serve(clients, async { drop(stopped.await) }));
        let gateway = TestGateway { store, port };
        assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket"), b"").await.status, 200);
        Self { gateway, own, port: metrics, stop: Some(stop) }
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("the gateway listens");
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("the gateway reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("the gateway answers");
        Answer::parse(&answer)
    }

    async fn scrape(&self) -> Scrape {
        let answer = self.get("/metrics", "host: localhost\r\n").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.head.contains("content-type: application/openmetrics-text"), "{}", answer.head);
        assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
        let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Scrape(values.collect())
    }

    /// Repeats a scrape until it is as expected.
    async fn scrape_until(&self, is_expected: impl Fn(&Scrape) -> bool) -> Scrape {
        loop {
            let scrape = self.scrape().await;
            if is_expected(&scrape) {
                return scrape;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Repeats a request until its answer has this status.
    async fn health_of(&self, status: u16) -> Answer {
        loop {
            let answer = self.get("/health", "").await;
            if answer.status == status {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_operation_status_and_bytes() {
    let monitored = MonitoredGateway::start(None, |_| ()).await;
    let gateway = &monitored.gateway;
    let body = vec![b'x'; 300_000];
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/key"), &body).await.status, 200);
    let read = SignedRequest::new("GET", "/bucket/key");
    assert_eq!(gateway.send(&read, b"").await.body.len(), body.len());
    assert_eq!(gateway.send(&read, b"").await.body.len(), body.len());
    assert_eq!(gateway.status_of("/bucket/absent").await, 404);
    let list = SignedRequest { query: "list-type=2", ..SignedRequest::new("GET", "/bucket") };
    assert_eq!(gateway.send(&list, b"").await.status, 200);
    let wrong = SignedRequest { secret: "wrong", ..SignedRequest::new("GET", "/bucket/key") };
    assert_eq!(gateway.send(&wrong, b"").await.status, 403);
    let preflight = b"OPTIONS /bucket HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(gateway.exchange(preflight, usize::MAX).await.status, 400);
    let scrape = monitored.scrape_until(|scrape| scrape.operations().len() == 6).await;
    // No name comes from a client: neither a bucket nor a key is a label.
    let operations = ["create_bucket", "get_object", "list_objects_v2", "preflight", "put_object", "unknown"];
    assert_eq!(scrape.operations(), operations);
    for (operation, status, count) in [
        ("create_bucket", "2xx", 1.0),
        ("put_object", "2xx", 1.0),
        ("get_object", "2xx", 2.0),
        ("get_object", "4xx", 1.0),
        ("get_object", "5xx", 0.0),
        ("list_objects_v2", "2xx", 1.0),
        ("preflight", "4xx", 1.0),
        ("unknown", "4xx", 1.0),
    ] {
        assert_eq!(scrape.requests(operation, status), count, "{operation} {status}");
    }
    assert_eq!(scrape.value("s3_request_seconds_count{operation=\"get_object\"}"), 3.0);
    assert_eq!(scrape.value("s3_request_seconds_bucket{le=\"+Inf\",operation=\"get_object\"}"), 3.0);
    assert!(scrape.value("s3_request_seconds_sum{operation=\"put_object\"}") > 0.0);
    assert_eq!(scrape.value("s3_received_bytes_total"), 300_000.0);
    assert!(scrape.value("s3_sent_bytes_total") > 600_000.0);
    assert!(scrape.value("s3_connections_accepted_total") >= 7.0);
    assert_eq!(scrape.value(&format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
    assert_eq!((scrape.value("s3_serving"), scrape.value("s3_users_unknown_total")), (1.0, 0.0));
}

#[tokio::test]
async fn requests_under_way_and_those_without_a_client_are_counted() {
    let monitored = MonitoredGateway::start(None, |_| ()).await;
    let request = SignedRequest::new("PUT", "/bucket/key");
    let mut client = TcpStream::connect(("127.0.0.1", monitored.gateway.port)).await.unwrap();
    client.write_all(&[request.head(100_000).0.as_bytes(), &[b'x'; 4_000]].concat()).await.unwrap();
    let is_there = |scrape: &Scrape| {
        scrape.value("s3_received_bytes_total") == 4_000.0 && scrape.value("s3_connections") == 1.0
    };
    let scrape = monitored.scrape_until(is_there).await;
    assert_eq!((scrape.value("s3_requests_under_way"), scrape.value("s3_requests_waiting")), (1.0, 0.0));
    drop(client);
    let scrape = monitored.scrape_until(|scrape| scrape.value("s3_connections") == 0.0).await;
    assert_eq!(scrape.value("s3_requests_under_way"), 0.0);
    // The gateway sees the end of the body first, or that of the connection.
    let ends = ["2xx", "4xx", "none"].map(|status| scrape.requests("put_object", status));
    assert!(ends == [0.0, 1.0, 0.0] || ends == [0.0, 0.0, 1.0], "{ends:?}");
}

#[tokio::test]
async fn documents_that_wait_for_others_are_counted() {
    let monitored = MonitoredGateway::start(None, |_| ()).await;
    let request = SignedRequest { query: "delete", ..SignedRequest::new("POST", "/bucket") };
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = TcpStream::connect(("127.0.0.1", monitored.gateway.port)).await.unwrap();
        client.write_all(&[request.head(100).0.as_bytes(), b"<Delete>"].concat()).await.unwrap();
        clients.push(client);
    }
    let scrape = monitored.scrape_until(|scrape| scrape.value("s3_requests_waiting") == 2.0).await;
    assert_eq!(scrape.value("s3_requests_under_way"), 8.0);
    drop(clients);
    monitored
        .scrape_until(|scrape| {
            scrape.value("s3_requests_waiting") + scrape.value("s3_requests_under_way") == 0.0
        })
        .await;
}

#[tokio::test]
async fn refused_connections_are_counted() {
    let monitored = MonitoredGateway::start(None, |options| {
        options.connections = ConnectionLimits { total: 1, per_address: 1 };
    })
    .await;
    let mut user = TcpStream::connect(("127.0.0.1", monitored.gateway.port)).await.unwrap();
    let head = SignedRequest::new("HEAD", "/bucket").head(0).0.replace("connection: close\r\n", "");
    user.write_all(head.as_bytes()).await.unwrap();
    assert!(user.read_buf(&mut Vec::new()).await.unwrap() > 0);
    let mut refused = TcpStream::connect(("127.0.0.1", monitored.gateway.port)).await.unwrap();
    let mut answer = Vec::new();
    refused.read_to_end(&mut answer).await.unwrap();
    assert_eq!(Answer::parse(&answer).status, 503);
    let scrape = monitored.scrape().await;
    assert_eq!((scrape.value("s3_connections_refused_total"), scrape.value("s3_connections")), (1.0, 1.0));
}

#[tokio::test]
async fn sweeps_and_the_bodies_that_they_remove_are_counted() {
    let monitored = MonitoredGateway::start(None, |_| ()).await;
    let gateway = &monitored.gateway;
    let put = SignedRequest::new("PUT", "/bucket/key");
    assert_eq!(gateway.send(&put, b"first").await.status, 200);
    assert_eq!(gateway.send(&put, b"second").await.status, 200);
    let removed = "s3_bodies_removed_total";
    let (failed, all) = ("s3_sweeps_failed_total", "s3_sweeps_total");
    gateway.store.ahead.store(3_600_000, Ordering::Relaxed);
    gateway.store.is_full.store(true, Ordering::Relaxed);
    let sweep = tokio::spawn(monitored.own.clone().sweep());
    let scrape = monitored.scrape_until(|scrape| scrape.value(failed) > 0.0).await;
    assert_eq!((scrape.value(all), scrape.value(failed), scrape.value(removed)), (1.0, 1.0, 0.0));
    sweep.abort();
    gateway.store.is_full.store(false, Ordering::Relaxed);
    let sweep = tokio::spawn(monitored.own.clone().sweep());
    let scrape = monitored.scrape_until(|scrape| scrape.value(all) > 1.0).await;
    sweep.abort();
    assert_eq!((scrape.value(failed), scrape.value(removed)), (1.0, 1.0));
    assert_eq!(gateway.store.blob_count(), 1);
}

/// Users that are not known while no manager answers.
struct DoubtfulUsers {
    are_known: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Users for DoubtfulUsers {
    async fn find(&self, _: &str) -> Result<UserFound, String> {
        match self.are_known.load(Ordering::Relaxed) {
            true => Ok(UserFound::User(User::unlimited(), SECRET.to_owned())),
            false => Err("no manager answers".to_owned()),
        }
    }
}

#[tokio::test]
async fn health_says_why_the_gateway_does_not_serve() {
    let are_known = Arc::new(AtomicBool::new(true));
    let users = DoubtfulUsers { are_known: Arc::clone(&are_known) };
    let mut monitored = MonitoredGateway::start(None, |options| options.users = Arc::new(users)).await;
    assert_eq!(monitored.health_of(200).await.body, "{\"status\":\"serving\"}");
    are_known.store(false, Ordering::Relaxed);
    let body = monitored.health_of(503).await.body;
    assert!(body.contains("\"unreachable\"") && body.contains("no manager answers"), "{body}");
    assert_eq!(monitored.gateway.status_of("/bucket").await, 503);
    // Questions about the health are no requests of users.
    let scrape = monitored.scrape_until(|scrape| scrape.value("s3_serving") == 0.0).await;
    assert_eq!(scrape.value("s3_users_unknown_total"), 1.0);
    are_known.store(true, Ordering::Relaxed);
    monitored.health_of(200).await;
    monitored.gateway.store.is_unavailable.store(true, Ordering::Relaxed);
    let body = monitored.health_of(503).await.body;
    assert!(body.contains("names of objects") && body.contains("it does not answer"), "{body}");
    monitored.gateway.store.is_unavailable.store(false, Ordering::Relaxed);
    monitored.health_of(200).await;
    monitored.stop = None;
    let body = monitored.health_of(503).await.body;
    assert!(body.contains("\"stopping\""), "{body}");
}

#[tokio::test]
async fn metrics_need_the_bearer_text_of_a_cluster_with_a_secret() {
    let secret = Secret::from_text(b"a secret of tests, long enough to be one").unwrap();
    let bearer = secret.bearer();
    let monitored = MonitoredGateway::start(Some(secret), |_| ()).await;
    for headers in ["", "authorization: Bearer \r\n", &format!("authorization: Bearer {bearer}0\r\n")] {
        let refused = monitored.get("/metrics", headers).await;
        assert!(refused.status == 401 && refused.body.contains("zerohop secret bearer"), "{refused:?}");
    }
    let shown = format!("authorization: Bearer {bearer}\r\nhost: any.example\r\n");
    assert_eq!(monitored.get("/metrics", &shown).await.status, 200);
    assert_eq!(monitored.get("/health", "host: any.example\r\n").await.status, 200);
    assert_eq!(monitored.get("/other", &shown).await.status, 404);
}

#[tokio::test]
async fn web_pages_of_other_hosts_do_not_get_metrics_without_a_secret() {
    let monitored = MonitoredGateway::start(None, |_| ()).await;
    for headers in ["host: evil.example\r\n", "host: localhost\r\norigin: https://evil.example\r\n"] {
        assert_eq!(monitored.get("/metrics", headers).await.status, 403, "{headers}");
    }
    assert_eq!(monitored.get("/metrics", "host: 127.0.0.1:9\r\n").await.status, 200);
    let mut stream = TcpStream::connect(("127.0.0.1", monitored.port)).await.unwrap();
    stream.write_all(b"POST /metrics HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(Answer::parse(&answer).status, 405);
}
