//! Several clients at once.

use std::sync::Arc;

use zerohop_objects::planted::{Bug, plant};

use crate::signed::{Served, Signed};

/// The writers whose conditional puts of one object succeed.
async fn winners(served: &Arc<Served>, path: &str) -> Vec<String> {
    let puts: Vec<_> = (0..8)
        .map(|writer| {
            let (served, path) = (Arc::clone(served), path.to_owned());
            tokio::spawn(async move {
                let put = Signed::new("PUT", &path).header("if-none-match", "*");
                (served.send(&put, format!("{writer}").as_bytes()).await.status, writer)
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
    let served = Arc::new(Served::start(|_| ()).await);
    for round in 0..5 {
        let path = format!("/bucket/{round}");
        let winners = winners(&served, &path).await;
        let body = served.send(&Signed::new("GET", &path), b"").await.body;
        assert_eq!(winners, [body]);
    }
    // The runtime has one thread, in which all requests run.
    plant(Some(Bug::NothingChecked));
    let mut most = 0;
    for round in 5..25 {
        most = most.max(winners(&served, &format!("/bucket/{round}")).await.len());
    }
    plant(None);
    assert!(most > 1, "unchecked commits are not seen");
}
