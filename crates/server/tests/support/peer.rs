//! A connection on which a test plays the other side of replication.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{PATIENCE, Server, request};

/// What begins the stream after a snapshot: the database of the next change.
pub const SELECT: &str = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// See the module documentation.
pub struct Peer(pub TcpStream);

impl Peer {
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// One that accepts a mark and other ids.
    pub fn introduced(server: &Server) -> Self {
        let mut replica = Self::connect(server);
        replica.send("REPLCONF listening-port 1234 capa eof capa psync2\r\n");
        assert_eq!(replica.line(), "+OK");
        replica
    }

    /// One that has its snapshot, and receives the stream. Returns the id and the offset.
    pub fn synchronised(server: &Server) -> (Self, String, u64) {
        let mut replica = Self::introduced(server);
        replica.send("PSYNC ? -1\r\n");
        let (id, offset) = replica.full_answer();
        replica.snapshot();
        replica.acknowledge(offset);
        (replica, id, offset)
    }

    pub fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    pub fn acknowledge(&mut self, offset: u64) {
        self.send(&request(&["REPLCONF", "ACK", &offset.to_string()]));
    }

    /// Sends a line, and returns the line that answers it.
    pub fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}\r\n"));
        self.line()
    }

    /// The next line, without its end. Empty lines are passed over.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            match self.exact(1)[0] {
                b'\n' if line.is_empty() => {}
                b'\n' => break,
                byte => line.push(byte),
            }
        }
        assert_eq!(line.pop(), Some(b'\r'));
        String::from_utf8(line).unwrap()
    }

    pub fn exact(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn expect(&mut self, text: &str) {
        let bytes = self.exact(text.len());
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    /// The id and the offset of `+FULLRESYNC`.
    pub fn full_answer(&mut self) -> (String, u64) {
        let line = self.line();
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!((words.len(), words[0], words[1].len()), (3, "+FULLRESYNC", 40));
        (words[1].to_owned(), words[2].parse().unwrap())
    }

    /// The bytes of a snapshot with a mark.
    pub fn snapshot(&mut self) -> Vec<u8> {
        let head = self.line();
        let mark = head.strip_prefix("$EOF:").unwrap().as_bytes();
        assert_eq!(mark.len(), 40);
        let mut bytes = self.exact(40);
        while !bytes.ends_with(mark) {
            bytes.extend(self.exact(1));
        }
        bytes.truncate(bytes.len() - 40);
        assert!(bytes.starts_with(b"REDIS"));
        bytes
    }

    /// The snapshot, after which the connection ends.
    pub fn last_snapshot(&mut self) -> Vec<u8> {
        let mark = self.line().strip_prefix("$EOF:").unwrap().to_owned();
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"REDIS") && bytes.ends_with(mark.as_bytes()));
        bytes
    }
}
