//! Our side of a dialogue: a server that is started for it.

use wire::reply::Protocol;
use wire::response::Reply;

use crate::check::Server;
use crate::marks::Identity;
use crate::peer::Peer;
use crate::support;

/// A server and the connection of the dialogue.
pub struct Ours {
    server: support::Server,
    connection: Peer,
}

impl Ours {
    pub fn new() -> Self {
        let options = ["--appendonly", "yes", "--enable-debug-command", "yes", "--io-threads", "2"];
        let server = support::Server::start(&options);
        let connection = Peer::connect(&format!("127.0.0.1:{}", server.port), "");
        Self { server, connection: connection.expect("a dialogue without marks holds for every server") }
    }

    /// Loads the append-only file of the dialogue, and compares the digests of all data.
    pub fn check_replay(&mut self) {
        let mut client = self.server.client();
        let before = client.text(&["DEBUG", "DIGEST"]);
        assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
        assert_eq!(client.text(&["DEBUG", "DIGEST"]), before, "the log repeats all changes");
    }
}

impl Server for Ours {
    fn identity(&self) -> Option<&Identity> {
        None
    }

    fn request(&mut self, args: &[Vec<u8>]) -> Option<Reply> {
        self.connection.request(args)
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.connection.set_protocol(protocol);
    }

    fn wait(&mut self, ms: u64) {
        self.connection.wait(ms);
    }

    fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)> {
        self.connection.inspect(key)
    }

    fn configure(&mut self, name: &str, value: &str) {
        self.connection.configure(name, value);
    }
}
