//! Several clients at once.

use std::sync::Arc;

use crate::signed::{Served, Signed};

#[tokio::test]
async fn conditional_puts_have_one_winner() {
    let served = Arc::new(Served::start(|_| ()).await);
    for round in 0..5 {
        let path = format!("/bucket/{round}");
        let puts: Vec<_> = (0..8)
            .map(|writer| {
                let (served, path) = (Arc::clone(&served), path.clone());
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
        let body = served.send(&Signed::new("GET", &path), b"").await.body;
        assert_eq!(winners, [body]);
    }
}
