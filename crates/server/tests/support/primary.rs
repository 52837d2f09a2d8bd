//! A primary that a test plays.

use std::io::{ErrorKind, Read};
use std::net::TcpListener;

use wire::response::Reply;

use super::peer::Peer;
use super::{Client, PATIENCE, Server, shown, wait_for};

pub const ID: &str = "0123456789012345678901234567890123456789";

/// An RDB file with the key `k` and database 2 selected in the stream, without a checksum.
pub const SNAPSHOT: &[u8] =
    b"REDIS0011\xfa\x0erepl-stream-db\xc0\x02\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";

/// A primary that a test plays.
pub struct Played(pub TcpListener);

/// A connection of its replica, with what has arrived.
pub struct Link(pub Peer, pub Vec<u8>);

impl Played {
    pub fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn is_followed_by(&self, server: &Server) -> Client {
        let port = self.0.local_addr().unwrap().port().to_string();
        let mut client = server.client();
        assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
        client
    }

    /// Accepts a connection.
    pub fn accept_silently(&self) -> Link {
        self.0.set_nonblocking(true).unwrap();
        let stream = wait_for(|| match self.0.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Link(Peer(stream), Vec::new())
    }

    /// Accepts a connection, and answers up to `PSYNC` or `SYNC`. Returns all words.
    pub fn accept(&self) -> (Link, String) {
        let mut link = self.accept_silently();
        let mut all = String::new();
        loop {
            let words = link.request().expect("it is open");
            all.push_str(&format!("{words} "));
            match words.as_str() {
                "PING" => link.0.send("+PONG\r\n"),
                _ if words.contains("SYNC") => return (link, all),
                _ => link.0.send("+OK\r\n"),
            }
        }
    }

    /// The connection of a replica that has the snapshot, and acknowledges offset 100 of this id. Database 2 is selected.
    pub fn synchronise(&self, id: &str) -> Link {
        let (mut link, _) = self.accept();
        link.0.send(&format!("+FULLRESYNC {id} 100\r\n${}\r\n", SNAPSHOT.len()));
        std::io::Write::write_all(&mut link.0.0, SNAPSHOT).unwrap();
        link.expect_acknowledged(100);
        link
    }

    /// Both connections in the form of Redis, up to the first bytes of the snapshot, whose offset is 100.
    pub fn begin(&self) -> (Link, Peer) {
        let (mut main, words) = self.accept();
        assert!(words.contains("capa rdb-channel-repl"), "{words}");
        main.0.send("+RDBCHANNELSYNC 7\r\n");
        let (Link(mut channel, _), words) = self.accept();
        let introduction = "rdb-only 1 rdb-channel 1 ";
        assert!(words.contains(introduction) && words.contains("main-ch-client-id 7 "), "{words}");
        assert!(words.ends_with("PSYNC ? -1 "), "{words}");
        channel.send(&format!("\n+FULLRESYNC {ID} 100\r\n${}\r\n", SNAPSHOT.len()));
        (main, channel)
    }
}

impl Link {
    /// The words of the next request; `None`: the link is closed. Empty lines are passed over.
    pub fn request(&mut self) -> Option<String> {
        loop {
            let empty = self.1.iter().take_while(|byte| **byte == b'\n').count();
            self.1.drain(..empty);
            if self.1.starts_with(b"SYNC\r\n") {
                self.1.drain(..6);
                return Some("SYNC".to_owned());
            }
            if self.1.first() == Some(&b'*')
                && let Some((Reply::Array(words), size)) = Reply::parse(&self.1).unwrap()
            {
                self.1.drain(..size);
                return Some(words.iter().map(shown).collect::<Vec<_>>().join(" "));
            }
            let mut chunk = [0; 4096];
            match self.0.0.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(size) => self.1.extend_from_slice(&chunk[..size]),
            }
        }
    }

    /// Waits until this offset is acknowledged.
    pub fn expect_acknowledged(&mut self, offset: usize) {
        let expected = format!("REPLCONF ACK {offset}");
        // With an append-only file, what is durable follows.
        while !format!("{} ", self.request().expect("it is open")).starts_with(&format!("{expected} ")) {}
    }
}
