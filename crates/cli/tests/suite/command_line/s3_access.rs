//! `zerohop s3` in a cluster with a secret: tokens as users.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::s3::signing::{Answer, SignedRequest};
use super::s3::{send_as_user, with_query};
use super::secrets::{new_secret, run_with, up};
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::{folder, wait_for};

/// A cluster with a secret, and a gateway.
struct SecretCluster {
    folder: crate::support::folder::TestFolder,
    secret: PathBuf,
    cluster: ServingProgram,
    gateway: ServingProgram,
}

/// What a client signs with.
struct AccessKeys {
    id: String,
    secret: String,
}

fn gateway(cluster: &ServingProgram, secret: &Path, arguments: &[&str]) -> ServingProgram {
    let mut command = zerohop(&["s3", "--listen", "127.0.0.1:0", "--json", "--log-level", "info"]);
    command.args(arguments).env("ZEROHOP_ENDPOINT", cluster.endpoint()).env("ZEROHOP_SECRET_FILE", secret);
    ServingProgram::start(command)
}

impl SecretCluster {
    fn start() -> Self {
        let folder = folder();
        let secret = new_secret(folder.path(), "secret");
        let cluster = up(&secret, &[]);
        let gateway = gateway(&cluster, &secret, &[]);
        Self { folder, secret, cluster, gateway }
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        run_with(&self.cluster, Some(&self.secret), arguments)
    }

    /// Makes a token.
    fn keys(&self, name: &str, arguments: &[&str]) -> AccessKeys {
        let file = self.folder.path().join(format!("{name}.token"));
        drop(std::fs::remove_file(&file));
        let new = ["token", "new", name, "--json", "--s3", "--file", file.to_str().unwrap()];
        let done = self.run(&[&new, arguments].concat());
        assert_eq!((code(&done), stderr(&done).as_str()), (0, ""), "{done:?}");
        let printed: Value = serde_json::from_str(&stdout(&done)).unwrap();
        let text = |name: &str| printed[name].as_str().unwrap().to_owned();
        AccessKeys { id: text("access_key_id"), secret: text("secret_access_key") }
    }

    fn send(&self, keys: &AccessKeys, request: SignedRequest<'_>, body: &[u8]) -> Answer {
        let address = self.gateway.ready["listen"].as_str().unwrap();
        send_as_user(address, SignedRequest { access_key: &keys.id, secret: &keys.secret, ..request }, body)
    }

    /// The status and the error code of a request.
    fn outcome(&self, keys: &AccessKeys, request: SignedRequest<'_>) -> (u16, String) {
        // The creation of a bucket has no body, and no read has one.
        let is_object = request.method == "PUT" && request.path[1..].contains('/');
        let answer = self.send(keys, request, if is_object { b"body" } else { b"" });
        (answer.status, answer.code().to_owned())
    }
}

fn ok() -> (u16, String) {
    (200, String::new())
}

fn refused(code: &str) -> (u16, String) {
    (403, code.to_owned())
}

#[test]
fn tokens_are_users_with_their_grants() {
    let bench = SecretCluster::start();
    let owner = bench.keys("owner", &["--keyspace", "objects=read,write"]);
    assert_eq!((owner.id.as_str(), owner.secret.len()), ("owner", 40));
    for path in ["/pictures", "/pictures/2026/one", "/pictures/2025/two", "/logs"] {
        assert_eq!(bench.outcome(&owner, SignedRequest::new("PUT", path)), ok(), "{path}");
    }
    let reader = bench.keys("reader", &["--all", "read"]);
    assert_eq!(bench.outcome(&reader, SignedRequest::new("GET", "/pictures/2026/one")), ok());
    assert_eq!(
        bench.outcome(&reader, SignedRequest::new("PUT", "/pictures/2026/one")),
        refused("AccessDenied")
    );
    assert_eq!(
        bench.outcome(&reader, SignedRequest::new("DELETE", "/pictures/2026/one")),
        refused("AccessDenied")
    );
    // A permission in another keyspace is none for objects.
    let elsewhere = bench.keys("elsewhere", &["--keyspace", "default=read,write,admin"]);
    assert_eq!(
        bench.outcome(&elsewhere, SignedRequest::new("GET", "/pictures/2026/one")),
        refused("AccessDenied")
    );
    let guest = bench.keys("guest", &["--bucket", "logs=read,write", "--bucket", "pictures/2026/=read"]);
    assert_eq!(bench.outcome(&guest, SignedRequest::new("PUT", "/logs/a")), ok());
    assert_eq!(bench.outcome(&guest, SignedRequest::new("GET", "/pictures/2026/one")), ok());
    assert_eq!(
        bench.outcome(&guest, SignedRequest::new("PUT", "/pictures/2026/one")),
        refused("AccessDenied")
    );
    assert_eq!(
        bench.outcome(&guest, SignedRequest::new("GET", "/pictures/2025/two")),
        refused("AccessDenied")
    );
    assert_eq!(bench.outcome(&guest, with_query("GET", "/pictures", "list-type=2")), refused("AccessDenied"));
    assert_eq!(bench.outcome(&guest, with_query("GET", "/pictures", "list-type=2&prefix=2026%2F")), ok());
    // The token of a bucket gives no access to the records and bodies themselves.
    let token = bench.folder.path().join("guest.token");
    for keyspace in ["objects", "objects-bodies"] {
        let mut scan = zerohop(&["kv", "scan", "--keyspace", keyspace]);
        scan.env("ZEROHOP_ENDPOINT", bench.cluster.endpoint()).env("ZEROHOP_TOKEN_FILE", &token);
        let scan = output(scan, b"");
        assert!(code(&scan) == 3 && stderr(&scan).contains("needs `read`"), "{scan:?}");
    }
}

#[test]
fn wrong_revoked_and_expired_keys_are_refused() {
    let bench = SecretCluster::start();
    let owner = bench.keys("owner", &["--keyspace", "objects=read,write"]);
    assert_eq!(bench.outcome(&owner, SignedRequest::new("PUT", "/pictures")), ok());
    assert_eq!(bench.outcome(&owner, SignedRequest::new("PUT", "/pictures/one")), ok());
    let get = || SignedRequest::new("GET", "/pictures/one");
    let wrong = AccessKeys { id: "owner".to_owned(), secret: "0".repeat(40) };
    assert_eq!(bench.outcome(&wrong, get()), refused("SignatureDoesNotMatch"));
    let open = AccessKeys { id: "owner".to_owned(), secret: "zerohop".to_owned() };
    assert_eq!(bench.outcome(&open, get()), refused("SignatureDoesNotMatch"));
    let absent = AccessKeys { id: "absent".to_owned(), secret: owner.secret.clone() };
    assert_eq!(bench.outcome(&absent, get()), refused("InvalidAccessKeyId"));
    for clock_off in [-3600, 3600] {
        assert_eq!(
            bench.outcome(&owner, SignedRequest { clock_off, ..get() }),
            refused("RequestTimeTooSkewed"),
            "{clock_off}"
        );
    }
    assert_eq!(code(&bench.run(&["token", "revoke", "owner"])), 0);
    let ended = || bench.outcome(&owner, get());
    wait_for("the refusal of a revoked token", ended, |end| *end == refused("InvalidAccessKeyId"));
    // A new token of the same name has other keys.
    let renewed = bench.keys("owner", &["--keyspace", "objects=read"]);
    assert_ne!(renewed.secret, owner.secret);
    let begun = || bench.outcome(&renewed, get());
    wait_for("the new token", begun, |begun| *begun == ok());
    assert_eq!(bench.outcome(&owner, get()), refused("SignatureDoesNotMatch"));
    let short = bench.keys("short", &["--all", "read", "--expires", "1s"]);
    let ended = || bench.send(&short, get(), b"");
    let end = wait_for("the expiry of a token", ended, |end| end.status == 403);
    assert!(end.code() == "InvalidAccessKeyId" && end.body.contains("expired"), "{end:?}");
    assert_eq!(bench.gateway.end_with(Signal::TERM), Some(0));
}

#[test]
fn gateway_needs_the_secret_of_a_cluster_that_has_one() {
    let bench = SecretCluster::start();
    let file = bench.folder.path().join("all.token");
    let made =
        bench.run(&["token", "new", "all", "--all", "read,write,admin", "--file", file.to_str().unwrap()]);
    assert_eq!(code(&made), 0, "{made:?}");
    let mut with_token = zerohop(&["s3", "--listen", "127.0.0.1:0"]);
    with_token.env("ZEROHOP_ENDPOINT", bench.cluster.endpoint()).env("ZEROHOP_TOKEN_FILE", &file);
    let refused = output(with_token, b"");
    assert!(code(&refused) == 2 && stderr(&refused).contains("--secret-file"), "{refused:?}");
    let mut without = zerohop(&["s3", "--listen", "127.0.0.1:0"]);
    without.env("ZEROHOP_ENDPOINT", bench.cluster.endpoint());
    let refused = output(without, b"");
    assert!(code(&refused) == 3 && stderr(&refused).contains("the cluster has a secret"), "{refused:?}");
    for bucket in ["=read", "pictures", "pictures=", "pictures=all"] {
        let refused = bench.run(&["token", "new", "bad", "--bucket", bucket]);
        assert_eq!(code(&refused), 2, "{bucket}: {refused:?}");
    }
    for bucket in ["Pictures=read", "my_bucket/a=read", "ab=read", "10.0.0.1=read"] {
        let refused = bench.run(&["token", "new", "bad", "--bucket", bucket]);
        assert!(code(&refused) == 2 && stderr(&refused).contains("bucket"), "{bucket}: {refused:?}");
    }
}

#[test]
fn list_of_tokens_shows_permissions_in_buckets() {
    let bench = SecretCluster::start();
    bench.keys("guest", &["--bucket", "logs=read,write", "--bucket", "pictures/2026/=read"]);
    bench.keys("owner", &["--all", "read,write,admin"]);
    let text = stdout(&bench.run(&["token", "list"]));
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("guest").ends_with("; bucket logs: read,write; bucket pictures/2026/: read"), "{text}");
    assert!(line("owner").ends_with("all keyspaces: read,write,admin"), "{text}");
    let json = stdout(&bench.run(&["token", "list", "--json"]));
    let shown: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| &shown.iter().find(|one| one["name"] == name).unwrap()["buckets"];
    let grant = |bucket: &str, prefix: &str, permissions: &[&str]| serde_json::json!({"objects": "objects", "bucket": bucket, "prefix": prefix, "permissions": permissions});
    let grants = [grant("logs", "", &["read", "write"]), grant("pictures", "2026/", &["read"])];
    assert_eq!(
        (of("guest"), of("owner")),
        (&Value::from(grants.to_vec()), &Value::from(Vec::<Value>::new()))
    );
    // One that may see the tokens, and read nothing.
    let file = bench.folder.path().join("viewer.token");
    bench.keys("viewer", &["--all", "admin"]);
    let mut list = zerohop(&["token", "list", "--json"]);
    list.env("ZEROHOP_ENDPOINT", bench.cluster.endpoint()).env("ZEROHOP_TOKEN_FILE", &file);
    let list = output(list, b"");
    assert!(code(&list) == 0 && stderr(&list).contains("buckets cannot be read"), "{list:?}");
    assert!(stdout(&list).contains("\"buckets\":null"), "{list:?}");
}
