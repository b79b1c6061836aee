//! The offset of another machine's clock, from the `Date` of its HTTP answers.
//!
//! A `Date` has a resolution of seconds. So the node is asked repeatedly until its second changes:
//! the time is then the beginning of that second, with an error of one pause between questions.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zerohop_client::ClientTls;
use zerohop_system::clock::HybridClock;

use crate::common::http;

/// The pause between questions, and so the error of the result.
const PAUSE: Duration = Duration::from_millis(20);

/// One second, and a margin for a busy machine.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(3);

/// A manager's answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerHealth {
    /// Whether it serves.
    pub(super) serves: bool,
    /// How far its clock is ahead of this machine's, in milliseconds; `None`: the answer has no
    /// date.
    pub(super) ahead_ms: Option<i64>,
}

/// Asks the manager at `address`.
///
/// # Errors No answer comes, or it is not HTTP.
pub(super) async fn query_manager(address: &str, tls: Option<&ClientTls>) -> Result<ManagerHealth, String> {
    let reply = timeout(ROUND_TRIP_MAX, query_health(address, tls)).await;
    reply.unwrap_or_else(|_| Err(format!("no answer in {ROUND_TRIP_MAX:?}")))
}

async fn query_health(address: &str, tls: Option<&ClientTls>) -> Result<ManagerHealth, String> {
    let (serves, first) = question(address, tls).await?;
    let Some(first) = first else { return Ok(ManagerHealth { serves, ahead_ms: None }) };
    loop {
        sleep(PAUSE).await;
        let (serves, now) = question(address, tls).await?;
        match now {
            Some(now) if now != first => {
                let here = i64::try_from(HybridClock::default().tick().millis()).unwrap_or(i64::MAX);
                return Ok(ManagerHealth {
                    serves,
                    ahead_ms: Some(now.saturating_mul(1000).saturating_sub(here)),
                });
            }
            Some(_) => {}
            None => return Ok(ManagerHealth { serves, ahead_ms: None }),
        }
    }
}

/// Whether the node serves, and its time in seconds since 1970.
///
/// Each question has a connection of its own: where there is a secret, a manager answers one
/// question a connection. Nodes with TLS may serve nothing else.
async fn question(address: &str, tls: Option<&ClientTls>) -> Result<(bool, Option<i64>), String> {
    let text = http::exchange(address, "/health", None, tls).await?;
    let (head, _) = text.split_once("\r\n\r\n").ok_or("the answer ends before its head does")?;
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 ") {
        return Err("what answers there is no manager of zerohop".to_owned());
    }
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let date = fields.find(|(name, _)| name.eq_ignore_ascii_case("date"));
    Ok((status.starts_with("HTTP/1.1 200"), date.and_then(|(_, value)| seconds(value.trim()))))
}

/// Seconds since 1970 of an HTTP date (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds(text: &str) -> Option<i64> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: i64 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = names.iter().position(|one| *one == name)? as i64 + 1;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // Days since 1970, with years that begin in March (Howard Hinnant, days_from_civil).
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn dates_are_read() {
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds("Tue, 29 Feb 2028 23:59:59 GMT"), Some(1_835_481_599));
        for bad in
            ["", "now", "Sun, 06 Nev 1994 08:49:37 GMT", "Sun, 06 Nov 1994", "Sun, x Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    /// A manager that gives these answers in sequence.
    async fn manager(answers: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let mut bytes = [0; 1024];
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut bytes).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn answer(status: &str, date: &str) -> String {
        format!("HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: 2\r\n\r\nhi")
    }

    #[tokio::test]
    async fn clock_skew_is_measured_when_the_second_changes() {
        let (before, after) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        let answers = vec![answer("200 OK", before), answer("200 OK", before), answer("200 OK", after)];
        let health = query_manager(&manager(answers).await, None).await.unwrap();
        let here = i64::try_from(HybridClock::default().tick().millis()).unwrap();
        assert!(health.serves);
        let wrong = health.ahead_ms.unwrap() - (784_111_778_000 - here);
        assert!((-10..5000).contains(&wrong), "{wrong}");
    }

    #[tokio::test]
    async fn unavailable_node_and_non_manager_are_distinguished() {
        let silent = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nhi".to_owned();
        let health = query_manager(&manager(vec![silent]).await, None).await.unwrap();
        assert_eq!(health, ManagerHealth { serves: false, ahead_ms: None });
        assert!(query_manager(&manager(vec!["+PONG\r\n\r\n".to_owned()]).await, None).await.is_err());
        assert!(query_manager("127.0.0.1:1", None).await.is_err());
    }
}
