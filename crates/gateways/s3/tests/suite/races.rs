//! Several clients at once.

use std::sync::Arc;

use zerohop_layer_procedure::planted::{Bug, plant};

use crate::test_gateway::{SignedRequest, TestGateway};

/// The writers whose conditional puts of one object succeed.
async fn winners(gateway: &Arc<TestGateway>, path: &str) -> Vec<String> {
    let puts: Vec<_> = (0..8)
        .map(|writer| {
            let (gateway, path) = (Arc::clone(gateway), path.to_owned());
            tokio::spawn(async move {
                let put = SignedRequest::new("PUT", &path).header("if-none-match", "*");
                (gateway.send(&put, format!("{writer}").as_bytes()).await.status, writer)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for put in puts {
        match put.await.expect("no put panics") {
            (200, writer) => winners.push(writer.to_string()),
            (status, _) => assert_eq!(status, 412),
        }
    }
    winners
}

#[tokio::test]
async fn conditional_puts_have_one_winner() {
    let gateway = Arc::new(TestGateway::start(|_| ()).await);
    for round in 0..5 {
        let path = format!("/bucket/{round}");
        let winners = winners(&gateway, &path).await;
        let body = gateway.send(&SignedRequest::new("GET", &path), b"").await.body;
        assert_eq!(winners, [body]);
    }
    // The runtime has one thread, in which all requests run.
    plant(Some(Bug::NothingChecked));
    let mut most = 0;
    for round in 5..25 {
        most = most.max(winners(&gateway, &format!("/bucket/{round}")).await.len());
    }
    plant(None);
    assert!(most > 1, "unchecked commits are not seen");
}
