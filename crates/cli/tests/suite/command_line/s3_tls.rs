//! TLS for clients of S3 apart from that of the nodes.

use rustix::process::Signal;

use super::s3::signing::SignedRequest;
use super::s3::{ok, send};
use super::s3_up::send_over_tls;
use super::tls::{new_ca, tls};
use crate::support::folder;
use crate::support::serving::{ServingProgram, code, output, stderr, zerohop};

/// A request of the users of a cluster without a secret.
fn signed<'a>(method: &'a str, path: &'a str) -> SignedRequest<'a> {
    SignedRequest { secret: "zerohop", ..SignedRequest::new(method, path) }
}

#[test]
fn clients_of_s3_have_tls_and_the_nodes_have_none() {
    let folder = folder();
    let ca = new_ca(folder.path(), "ca");
    let authority = std::fs::read(ca.join("ca.pem")).unwrap();
    let (certificate, key) = (ca.join("node.pem"), ca.join("node-key.pem"));
    let own = [
        "--s3-tls-cert".to_owned(),
        certificate.to_str().unwrap().to_owned(),
        "--s3-tls-key".to_owned(),
        key.to_str().unwrap().to_owned(),
    ];
    let up = ["up", "--nodes", "1", "--instances", "1", "--port", "0", "--memory", "--json", "--s3", "0"];
    let mut command = zerohop(&up);
    command.args(&own);
    let cluster = ServingProgram::start(command);
    // The nodes have no TLS.
    cluster.ok(&["kv", "insert", "k", "v"]);
    let mut command = zerohop(&["s3", "--listen", "127.0.0.1:0", "--json", "--endpoint", cluster.endpoint()]);
    command.args(&own);
    let second = ServingProgram::start(command);
    let addresses = [&cluster.ready["s3"], &second.ready["listen"]].map(|at| at.as_str().unwrap().to_owned());
    let put = send_over_tls(&addresses[0], &authority, &signed("PUT", "/bucket"), b"");
    assert_eq!(put.status, 200, "{put:?}");
    for address in &addresses {
        let head = send_over_tls(address, &authority, &signed("HEAD", "/bucket"), b"");
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(send(address, SignedRequest::new("HEAD", "/bucket"), b"").status, 0);
    }
    let half = output(zerohop(&[&up[..], &["--s3-tls-cert", certificate.to_str().unwrap()]].concat()), b"");
    assert!(code(&half) == 2 && stderr(&half).contains("--s3-tls-key"), "{half:?}");
    let absent = ["--s3-tls-cert", "absent.pem", "--s3-tls-key", key.to_str().unwrap()];
    let absent = output(zerohop(&[&up[..], &absent].concat()), b"");
    assert!(code(&absent) == 3 && stderr(&absent).contains("absent.pem"), "{absent:?}");
    assert_eq!(second.end_with(Signal::TERM), Some(0));
}

#[test]
fn clients_of_s3_have_no_tls_and_the_nodes_have_it() {
    let folder = folder();
    let ca = new_ca(folder.path(), "ca");
    let mut command =
        zerohop(&["up", "--nodes", "1", "--instances", "1", "--port", "0", "--memory", "--json"]);
    command.args(tls(&ca, "node")).args(["--tls-only", "--s3", "0", "--s3-no-tls"]);
    let cluster = ServingProgram::start(command);
    let mut command = zerohop(&["s3", "--listen", "127.0.0.1:0", "--json", "--endpoint", cluster.endpoint()]);
    command.args(tls(&ca, "node")).arg("--s3-no-tls");
    let second = ServingProgram::start(command);
    ok(cluster.ready["s3"].as_str().unwrap(), SignedRequest::new("PUT", "/bucket"), b"");
    ok(second.ready["listen"].as_str().unwrap(), SignedRequest::new("GET", "/bucket"), b"");
    assert_eq!(second.end_with(Signal::TERM), Some(0));
}
