//! A cluster with a secret, while unauthenticated clients or weak tokens use all they can.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zerohop_client::{Client, ClientOptions, Error, Keyspace, WatchEvent, WatchOptions};
use zerohop_server::{ConnectionLimits, Server, ServerOptions};
use zerohop_wire::admin::{
    AdminQuestion, AdminReply, DelegateToken, KeyspaceSettings, TokenGrant, TokenList, TokenPut, TokenRevoke,
    Tokens,
};
use zerohop_wire::auth::{Secret, Token};
use zerohop_wire::messages::WaitUntil;
use zerohop_wire::{AuthFault, BadRequestReason, Permission};

use crate::redis_connection::{Redis, Reply, addresses, command, ok};
use crate::server::support::{admin, anywhere, block_on, default_keyspace, status};
use crate::support::give_up::GIVE_UP_AFTER;
use crate::support::waiting::wait_for;

const READ: u32 = 1;
const READ_WRITE: u32 = 3;

fn secret() -> Secret {
    Secret::from_text(b"8f14e45fceea167a5a36dedd4bea2543 of tests").unwrap()
}

/// Few unauthenticated connections, with a time limit longer than the test: only the limit of their
/// number closes them.
fn few_unproven_limits() -> ConnectionLimits {
    ConnectionLimits { unproven_max: 10, unproven_time_out: 2 * GIVE_UP_AFTER, ..ConnectionLimits::default() }
}

/// A node with one instance and a secret.
fn secured(connections: ConnectionLimits) -> Server {
    let options = ServerOptions::new(anywhere());
    let gateway = Some(zerohop_redis::GATEWAY);
    Server::start(ServerOptions {
        instances: Some(1),
        secret: Some(secret()),
        connections,
        gateway,
        ..options
    })
    .unwrap()
}

async fn client(server: &Server, token: Option<Token>) -> Client {
    let secret = token.is_none().then(secret);
    let options = ClientOptions {
        secret,
        token,
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    Client::connect_with(&[&server.manager_address().to_string()], options).await.unwrap()
}

/// Creates a token with this number and these permissions in all keyspaces, and waits until the
/// instance knows it.
async fn token(server: &Server, id: u64, permissions: u32) -> Token {
    let grants = vec![TokenGrant { keyspace: String::new(), permissions }];
    let put = TokenPut { id, name: format!("robot-{id}"), grants };
    let put = admin(&client(server, None).await, AdminQuestion::PutToken(put)).await;
    assert!(!matches!(put, AdminReply::Refused(_)), "{put:?}");
    secret().token(id)
}

fn with_token(server: &Server, token: &Token) -> Redis {
    let mut redis = Redis::connect(addresses(server)[0]);
    assert_eq!(redis.send_command(&format!("AUTH {}", token.text().trim())), ok());
    redis
}

fn is_error(reply: &Reply, begins: &str) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(begins))
}

/// Connections to this address that have sent `sent` and stay open.
fn flood(address: SocketAddr, many: usize, sent: &[u8]) -> Vec<TcpStream> {
    let connect = || {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have closed it already.
        drop(stream.write_all(sent));
        stream.set_nonblocking(true).unwrap();
        stream
    };
    (0..many).map(|_| connect()).collect()
}

/// How many of them are open, whatever was answered on them.
fn open(streams: &mut [TcpStream]) -> usize {
    let is_open = |stream: &mut TcpStream| {
        loop {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    streams.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count()
}

#[test]
fn unproven_connections_cannot_block_an_instance() {
    let limits = ConnectionLimits { instance_max: 30, ..few_unproven_limits() };
    let server = secured(limits);
    block_on(async {
        let robot = token(&server, 7, READ_WRITE).await;
        for sent in [&b"PING\r\n"[..], b"*2\r\n$4\r\nAUTH\r\n$300\r\nhalf of it", b"Z", b""] {
            let mut connections = flood(addresses(&server)[0], 100, sent);
            // Earlier connections are served, and new ones are accepted, with the secret and with a
            // token.
            let keyspace = default_keyspace(&client(&server, None).await).await;
            keyspace.insert("k", "v").await.unwrap();
            assert_eq!(with_token(&server, &robot).send_command("SET k w"), ok());
            let left = wait_for("the oldest have given way", || open(&mut connections), |open| *open <= 10);
            assert!(left <= 10, "{left}");
        }
    });
    server.stop().unwrap();
}

#[test]
fn unproven_connection_is_closed_at_its_time_limit() {
    let limits =
        ConnectionLimits { unproven_time_out: Duration::from_millis(300), ..ConnectionLimits::default() };
    let server = secured(limits);
    let mut redis = Redis::connect(addresses(&server)[0]);
    redis.stream.write_all(b"*2\r\n$4\r\nAUTH\r\n$900\r\n").unwrap();
    let mut sent = 0;
    let more = || {
        sent += 1;
        redis.stream.write_all(b"x").is_err()
    };
    wait_for("it is closed", more, |is_closed| *is_closed);
    assert!(sent < 900, "it ended for the time, not for what it had sent");
    server.stop().unwrap();
}

#[test]
fn unproven_connection_that_sends_too_much_is_closed() {
    let server = secured(ConnectionLimits::default());
    let address = addresses(&server)[0];
    let long = vec![b'x'; 2000];
    let half = &command(&[b"AUTH", &long])[..1500];
    for sent in [half, &b"PING\r\n".repeat(50)[..], &command(&[b"SET", b"k", &long])[..]] {
        let mut redis = Redis::connect(address);
        redis.stream.write_all(sent).unwrap();
        let mut replies = 0;
        while let Some(reply) = redis.try_reply() {
            assert!(is_error(&reply, "NOAUTH"), "{reply:?}");
            replies += 1;
        }
        assert!((1..10).contains(&replies), "{replies}");
    }
    server.stop().unwrap();
}

#[test]
fn unproven_connections_cannot_block_the_manager() {
    let limits = ConnectionLimits { manager_max: 30, ..few_unproven_limits() };
    let server = secured(limits);
    let address = server.manager_address();
    block_on(async {
        let known = client(&server, None).await;
        for sent in [&b"GET /health HTTP/1.1\r\nHost: x\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"Z", b""] {
            let mut connections = flood(address, 100, sent);
            assert_eq!(status(&known).await.nodes.len(), 1);
            assert_eq!(status(&client(&server, None).await).await.nodes.len(), 1);
            let bearer = format!("Authorization: Bearer {}\r\n", secret().bearer());
            assert!(http(address, &bearer).starts_with("HTTP/1.1 200 OK"));
            wait_for("the oldest have given way", || open(&mut connections), |open| *open <= 10);
        }
    });
    server.stop().unwrap();
}

/// The whole answer to two requests on one connection.
fn http(address: SocketAddr, header: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    let one = format!("GET /health HTTP/1.1\r\nHost: {address}\r\n{header}");
    stream.write_all(format!("{one}\r\n{one}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    // With an unread request the close may be a reset.
    drop(stream.read_to_string(&mut text));
    text
}

#[test]
fn http_without_bearer_gets_one_answer() {
    let server = secured(ConnectionLimits::default());
    let answers = |header: &str| http(server.manager_address(), header).matches("HTTP/1.1 200 OK").count();
    assert_eq!(answers(""), 1);
    assert_eq!(answers(&format!("Authorization: Bearer {}\r\n", secret().bearer())), 2);
    server.stop().unwrap();
}

#[test]
fn http_connection_with_unfinished_header_is_closed() {
    let limits =
        ConnectionLimits { unproven_time_out: Duration::from_millis(300), ..ConnectionLimits::default() };
    let server = secured(limits);
    let mut slow = flood(server.manager_address(), 5, b"GET /health HTTP/1.1\r\nHost: x\r\n");
    let trickle = || {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"A: b\r\n")));
        open(&mut slow)
    };
    wait_for("all are closed", trickle, |open| *open == 0);
    server.stop().unwrap();
}

#[test]
fn token_queues_only_permitted_commands_within_its_memory_share() {
    let share = 1 << 20;
    let server = secured(ConnectionLimits { token_waiting_bytes_max: share, ..ConnectionLimits::default() });
    block_on(async {
        let reader = token(&server, 7, READ).await;
        let mut redis = with_token(&server, &reader);
        assert_eq!(redis.send_command("MULTI"), ok());
        assert!(is_error(&redis.send_command("SET k v"), "NOPERM"));
        assert!(is_error(&redis.send_command("EXEC"), "EXECABORT"));
        assert_eq!(redis.send_command("MULTI"), ok());
        assert_eq!(redis.send_command("GET k"), Reply::Simple("QUEUED".to_owned()));
        assert_eq!(redis.send_command("EXEC"), Reply::Array(Some(vec![Reply::Bulk(None)])));

        let (one, other) = (token(&server, 8, READ_WRITE).await, token(&server, 9, READ_WRITE).await);
        let value = vec![b'x'; 100_000];
        let mut redis: Vec<Redis> = (0..30).map(|_| with_token(&server, &one)).collect();
        let mut queued = 0;
        for redis in &mut redis {
            assert_eq!(redis.send_command("MULTI"), ok());
            redis.stream.write_all(&command(&[b"SET", b"k", &value])).unwrap();
            match redis.reply() {
                Reply::Simple(_) => queued += 1,
                reply => assert!(is_error(&reply, "OOM"), "{reply:?}"),
            }
        }
        assert!((1..=share / value.len()).contains(&queued), "{queued}");
        // Another token has its own share, and released memory is available again.
        let mut free = with_token(&server, &other);
        assert_eq!(free.send_command("MULTI"), ok());
        free.stream.write_all(&command(&[b"SET", b"k", &value])).unwrap();
        assert_eq!(free.reply(), Reply::Simple("QUEUED".to_owned()));
        drop(redis);
        let again = || {
            let mut redis = with_token(&server, &one);
            assert_eq!(redis.send_command("MULTI"), ok());
            redis.stream.write_all(&command(&[b"SET", b"k", &value])).unwrap();
            redis.reply()
        };
        wait_for("there is room again", again, |reply| *reply == Reply::Simple("QUEUED".to_owned()));
    });
    server.stop().unwrap();
}

#[test]
fn slow_readers_of_one_token_leave_long_replies_to_others() {
    let server = secured(ConnectionLimits::default());
    block_on(async {
        let (one, other) = (token(&server, 7, READ).await, token(&server, 8, READ_WRITE).await);
        // More bytes than the sockets and the output buffers of a connection together have room for.
        let (values, value) = (400, vec![b'x'; 64 << 10]);
        let mut redis = with_token(&server, &other);
        for number in 1..=values {
            redis.stream.write_all(&command(&[b"RPUSH", b"list", &value])).unwrap();
            assert_eq!(redis.reply(), Reply::Number(number));
        }
        let head = format!("*{values}\r\n").into_bytes();
        let begin = |redis: &mut Redis| {
            let mut first = vec![0; head.len()];
            redis.stream.read_exact(&mut first).unwrap();
            assert_eq!(first, head);
        };
        // Twice as many as the partition has places. The first of them are answered in part, and read no more.
        let mut slow: Vec<Redis> = (0..32).map(|_| with_token(&server, &one)).collect();
        for (place, reader) in slow.iter_mut().enumerate() {
            reader.send("LRANGE list 0 -1");
            if place < 8 {
                begin(reader);
            }
        }
        redis.send("LRANGE list 0 -1");
        let Reply::Array(Some(read)) = redis.reply() else { panic!("the whole list") };
        assert_eq!(read.len(), values as usize);
        // Places that become free are for the token again.
        drop(slow);
        let mut next = with_token(&server, &one);
        next.send("LRANGE list 0 -1");
        begin(&mut next);
    });
    server.stop().unwrap();
}

#[test]
fn revoked_token_gets_no_answer_to_its_waits() {
    let server = secured(ConnectionLimits::default());
    block_on(async {
        let robot = token(&server, 7, READ_WRITE).await;
        let mut redis = with_token(&server, &robot);
        redis.send("ZH.WAIT key v 600000");
        let (owner, other) = (client(&server, None).await, client(&server, Some(robot)).await);
        let (mine, its) = (default_keyspace(&owner).await, default_keyspace(&other).await);
        let waiting = tokio::task::LocalSet::new();
        let waits = its.clone();
        let wait = waiting.spawn_local(async move { waits.wait("key", WaitUntil::Present).await });
        let revoked = async {
            // The wait is registered once a later request is answered.
            its.insert("other", "v").await.unwrap();
            admin(&owner, AdminQuestion::RevokeToken(TokenRevoke { name: "robot-7".to_owned() })).await;
            assert!(is_reported(AuthFault::Token, &wait.await.unwrap().unwrap_err()));
            mine.insert("key", "v").await.unwrap();
        };
        waiting.run_until(revoked).await;
        assert!(is_error(&redis.reply(), "NOAUTH the token was revoked"));
        assert_eq!(redis.try_reply(), None);
    });
    server.stop().unwrap();
}

#[test]
fn expired_token_ends_waits_with_a_reason() {
    let server = secured(ConnectionLimits::default());
    block_on(async {
        let robot = token(&server, 7, READ_WRITE).await;
        let mut redis = with_token(&server, &robot);
        redis.send("ZH.WAIT key v 600000");
        let (owner, other) = (client(&server, None).await, client(&server, Some(robot.clone())).await);
        let (mine, its) = (default_keyspace(&owner).await, default_keyspace(&other).await);
        let waiting = tokio::task::LocalSet::new();
        let waits = its.clone();
        let wait = waiting.spawn_local(async move { waits.wait("key", WaitUntil::Present).await });
        let expired = async {
            // The wait is registered once a later request is answered.
            its.insert("other", "v").await.unwrap();
            let put = TokenPut {
                id: 7,
                name: "robot-7".to_owned(),
                grants: vec![TokenGrant { keyspace: String::new(), permissions: READ_WRITE }],
            };
            let refused =
                admin(&owner, AdminQuestion::LendToken(DelegateToken { put: put.clone(), lasts_ms: 0 }))
                    .await;
            assert!(
                matches!(&refused, AdminReply::Refused(refused) if refused.reason.contains("above 0")),
                "{refused:?}"
            );
            let lent = admin(&owner, AdminQuestion::LendToken(DelegateToken { put, lasts_ms: 1 })).await;
            assert!(matches!(lent, AdminReply::Done(_)), "{lent:?}");
            assert!(is_reported(AuthFault::TokenExpired, &wait.await.unwrap().unwrap_err()));
            assert!(is_reported(AuthFault::TokenExpired, &its.lookup("other").await.unwrap_err()));
            mine.insert("key", "v").await.unwrap();
        };
        waiting.run_until(expired).await;
        assert!(is_error(&redis.reply(), "NOAUTH the token has expired"));
        assert_eq!(redis.try_reply(), None);
        let mut redis = Redis::connect(addresses(&server)[0]);
        assert!(is_error(
            &redis.send_command(&format!("AUTH {}", robot.text().trim())),
            "WRONGPASS the token has expired"
        ));
        let AdminReply::Tokens(Tokens { tokens }) =
            admin(&owner, AdminQuestion::ListTokens(TokenList {})).await
        else {
            panic!("it lists tokens")
        };
        assert!(tokens[0].has_expired && tokens[0].expires_ms.is_some(), "{tokens:?}");
    });
    server.stop().unwrap();
}

fn is_reported(fault: AuthFault, error: &Error) -> bool {
    let text = error.to_string();
    let is_so = text.contains(&fault.to_string());
    assert!(is_so, "{text}");
    is_so
}

#[test]
fn a_token_has_a_share_of_waits_and_snapshots() {
    let server = secured(ConnectionLimits { token_waits_max: 4, ..ConnectionLimits::default() });
    block_on(async {
        let robot = client(&server, Some(token(&server, 7, READ).await)).await;
        let (owner, its) = (client(&server, None).await, default_keyspace(&robot).await);
        let waiting = tokio::task::LocalSet::new();
        let wait = |keyspace: &Keyspace| {
            let keyspace = keyspace.clone();
            waiting.spawn_local(async move { keyspace.wait("key", WaitUntil::Present).await })
        };
        let of_token: Vec<_> = (0..5).map(|_| wait(&its)).collect();
        let mine = default_keyspace(&owner).await;
        let of_owner: Vec<_> = (0..5).map(|_| wait(&mine)).collect();
        let ended = async {
            its.lookup("other").await.unwrap();
            mine.insert("key", "v").await.unwrap();
            let mut refused = 0;
            for wait in of_token {
                if let Err(error) = wait.await.unwrap() {
                    assert!(
                        error.to_string().contains(&BadRequestReason::TooMuchWaits.to_string()),
                        "{error}"
                    );
                    refused += 1;
                }
            }
            assert_eq!(refused, 1);
            for wait in of_owner {
                wait.await.unwrap().unwrap();
            }
        };
        waiting.run_until(ended).await;

        let mut kept = Vec::new();
        let error = loop {
            match robot.snapshot(&[&its]).await {
                Ok(snapshot) => kept.push(snapshot),
                Err(error) => break error,
            }
        };
        assert_eq!(kept.len(), 16);
        assert!(error.to_string().contains("snapshots"), "{error}");
        // The owner's backups have room.
        owner.snapshot(&[&mine]).await.unwrap();
    });
    server.stop().unwrap();
}

/// A watch has one request at each partition.
#[test]
fn watches_of_a_token_count_among_its_waits() {
    let server = secured(ConnectionLimits { token_waits_max: 5, ..ConnectionLimits::default() });
    block_on(async {
        let (robot, owner) =
            (client(&server, Some(token(&server, 7, READ).await)).await, client(&server, None).await);
        let settings = KeyspaceSettings {
            name: "watched".into(),
            partitions: Some(2),
            history_ms: Some(60_000),
            ..KeyspaceSettings::default()
        };
        let created = admin(&owner, AdminQuestion::CreateKeyspace(settings)).await;
        assert!(matches!(created, AdminReply::Keyspace(_)), "{created:?}");
        let begun = async |client: &Client| {
            let options = WatchOptions { mark_ms: 30_000, ..WatchOptions::default() };
            let mut watch = client.keyspace("watched").await.unwrap().watch(options).unwrap();
            watch.begin().await.unwrap();
            watch
        };
        let (mut one, mut two, mut three) = (begun(&robot).await, begun(&robot).await, begun(&robot).await);
        // The sixth request is refused; the others wait.
        let refused = tokio::select! {
            event = one.next() => event,
            event = two.next() => event,
            event = three.next() => event,
        };
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(&BadRequestReason::TooMuchWaits.to_string()), "{error}");

        // A client with the secret has no such limit.
        let (mut one, mut two, mut three) = (begun(&owner).await, begun(&owner).await, begun(&owner).await);
        let written = owner.keyspace("watched").await.unwrap();
        let (one, two, three, written) =
            tokio::join!(one.next(), two.next(), three.next(), written.insert("key", "v"));
        written.unwrap();
        for event in [one, two, three] {
            let event = event.unwrap();
            assert!(matches!(&event, WatchEvent::Changes(changes) if changes.len() == 1), "{event:?}");
        }
    });
    server.stop().unwrap();
}

#[test]
fn wrong_password_delays_client_and_only_admin_lists_all_connections() {
    let server = secured(ConnectionLimits::default());
    block_on(async {
        let (one, other) = (token(&server, 7, READ).await, token(&server, 8, READ).await);
        let admin = token(&server, 9, u32::from(Permission::Admin.number())).await;
        let mut redis = with_token(&server, &one);
        let _same = with_token(&server, &one);
        let _others = (with_token(&server, &other), Redis::connect(addresses(&server)[0]));
        let listed = |redis: &mut Redis| match redis.send_command("CLIENT LIST") {
            Reply::Bulk(Some(list)) => String::from_utf8(list).unwrap().lines().count(),
            other => panic!("{other:?}"),
        };
        assert_eq!(listed(&mut redis), 2, "its own and the other of the same token");
        assert!(listed(&mut with_token(&server, &admin)) >= 4);
        // The command after a wrong password is executed, later.
        redis.stream.write_all(&[command(&[b"AUTH", b"wrong"]), command(&[b"PING"])].concat()).unwrap();
        assert!(is_error(&redis.reply(), "WRONGPASS"));
        assert_eq!(redis.reply(), Reply::Simple("PONG".to_owned()));
    });
    server.stop().unwrap();
}
