//! A plain client of Redis: lines out, replies in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::support::GIVE_UP_AFTER;

pub(crate) struct Redis(BufReader<TcpStream>);

impl Redis {
    pub(crate) fn connect(address: &str) -> Redis {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        stream.set_nodelay(true).unwrap();
        Redis(BufReader::new(stream))
    }

    /// Sends a command whose arguments have no spaces.
    pub(crate) fn send(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    /// The next reply: a text, a number, or an error behind its `-`; `nil`; or all of an array, with spaces between them.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let text = line.trim_end().to_owned();
        match text.split_at(1) {
            ("$" | "*", "-1") => "nil".to_owned(),
            ("*", count) => {
                let all: Vec<String> = (0..count.parse::<usize>().unwrap()).map(|_| self.reply()).collect();
                all.join(" ")
            }
            ("$", length) => {
                let mut bytes = vec![0; length.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            (":" | "+", rest) => rest.to_owned(),
            _ => text,
        }
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }
}
