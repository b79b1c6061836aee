//! A simple Redis client: lines out, replies in.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::support::GIVE_UP_AFTER;

pub(crate) struct Redis(BufReader<TcpStream>);

impl Redis {
    pub(crate) fn connect(address: &str) -> Redis {
        Redis::try_connect(address).unwrap()
    }

    /// Connects; an error if no process listens.
    pub(crate) fn try_connect(address: &str) -> io::Result<Redis> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(GIVE_UP_AFTER))?;
        stream.set_nodelay(true)?;
        Ok(Redis(BufReader::new(stream)))
    }

    /// Sends a command whose arguments have no spaces.
    pub(crate) fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(&encoded(command)).unwrap();
    }

    /// The next reply: a text, a number, or an error behind its `-`; `nil`; or the elements of an
    /// array, with spaces between them.
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

    /// Sends a command with a reply of one line, on a connection that may have ended.
    pub(crate) fn try_command(&mut self, command: &str) -> io::Result<String> {
        self.0.get_mut().write_all(&encoded(command))?;
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().trim_start_matches('+').to_owned()),
        }
    }

    pub(crate) fn send_command(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }
}

fn encoded(command: &str) -> Vec<u8> {
    let words: Vec<&str> = command.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    bytes.into_bytes()
}
