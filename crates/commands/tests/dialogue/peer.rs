//! A real Redis or Valkey as the server of a dialogue, at the address in `DIALOGUE_PEER`.
//!
//! Dialogues run one at a time: each first empties the server, and at the end restores its directives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wire::reply::Protocol;
use wire::response::{Reply, encode_command};

use crate::check::Server;
use crate::marks::{Identity, applies_to};

static TURN: Mutex<()> = Mutex::new(());

/// A connection to a real server.
pub struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    identity: Identity,
    /// Changed directives and their previous values.
    changed: Vec<(String, Vec<u8>)>,
    _turn: MutexGuard<'static, ()>,
}

impl Peer {
    /// Connects; `None` if the dialogue does not apply to this server.
    pub fn connect(address: &str, dialogue: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = TcpStream::connect(address).expect("the server of DIALOGUE_PEER answers");
        let unknown = Identity { product: "", version: (0, 0) };
        let mut peer =
            Self { stream, received: Vec::new(), identity: unknown, changed: Vec::new(), _turn: turn };
        let info = peer.call(&["INFO", "server"]);
        peer.identity = Identity::of_info(&String::from_utf8_lossy(info.text().unwrap_or_default()));
        if !applies_to(dialogue, &peer.identity) {
            return None;
        }
        peer.call(&["FLUSHALL"]);
        peer.call(&["SCRIPT", "FLUSH"]);
        peer.call(&["FUNCTION", "FLUSH"]);
        peer.delete_users();
        Some(peer)
    }

    /// Deletes the users that earlier dialogues have made.
    fn delete_users(&mut self) {
        let Reply::Array(users) = self.call(&["ACL", "USERS"]) else { panic!("ACL USERS is an array") };
        for user in users {
            let name = String::from_utf8_lossy(user.text().expect("a name is a string")).into_owned();
            if name != "default" {
                self.call(&["ACL", "DELUSER", &name]);
            }
        }
    }

    fn call(&mut self, args: &[&str]) -> Reply {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.request(&args).expect("each of these requests gets a reply")
    }
}

impl Server for Peer {
    fn identity(&self) -> Option<&Identity> {
        Some(&self.identity)
    }

    fn request(&mut self, args: &[Vec<u8>]) -> Option<Reply> {
        let mut request = Vec::new();
        encode_command(args, &mut request);
        self.stream.write_all(&request).expect("the connection holds");
        loop {
            if let Some((reply, size)) = Reply::parse(&self.received).expect("a well-formed reply") {
                self.received.drain(..size);
                return Some(reply);
            }
            let mut chunk = [0; 64 * 1024];
            let size = self.stream.read(&mut chunk).expect("the connection holds");
            assert!(size > 0, "the server closed the connection");
            self.received.extend_from_slice(&chunk[..size]);
        }
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.call(&["HELLO", if protocol == Protocol::Resp3 { "3" } else { "2" }]);
    }

    fn wait(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)> {
        let encoding = self.request(&[b"OBJECT".to_vec(), b"ENCODING".to_vec(), key.to_vec()]);
        let encoding = String::from_utf8_lossy(encoding?.text()?).into_owned();
        match self.request(&[b"PTTL".to_vec(), key.to_vec()]) {
            Some(Reply::Integer(ms)) => Some((encoding, (ms >= 0).then_some(ms))),
            other => panic!("PTTL answered {other:?}"),
        }
    }

    fn configure(&mut self, name: &str, value: &str) {
        let before = match self.call(&["CONFIG", "GET", name]) {
            Reply::Array(mut pair) if pair.len() == 2 => pair.remove(1),
            Reply::Map(mut pairs) if pairs.len() == 1 => pairs.remove(0).1,
            other => panic!("the directive {name} is {other:?}"),
        };
        let before = before.text().expect("a value is a string").to_vec();
        self.changed.push((name.to_owned(), before));
        self.call(&["CONFIG", "SET", name, value]);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for (name, value) in std::mem::take(&mut self.changed).into_iter().rev() {
            self.request(&[b"CONFIG".to_vec(), b"SET".to_vec(), name.into_bytes(), value]);
        }
    }
}
