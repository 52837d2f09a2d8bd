//! The TLS port: requests, certificates and their users, reloading, sessions, moves between workers, hostile clients.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use crate::certificates::{Authority, Files, Issued};
use crate::support::{self, Client, PATIENCE, Server, backends, free_port, shown, wait_for};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use wire::response::Reply;

/// A server with a plain port and a TLS port, and its authority.
struct Secure {
    server: Server,
    port: u16,
    authority: Authority,
    files: Files,
}

impl Secure {
    fn start(name: &str, options: &[&str]) -> Self {
        let authority = Authority::new("authority");
        let files = Files::new(name, &authority);
        let (certificate, key, ca) =
            (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
        // Opened afterwards: another process may have taken the port.
        let mut all =
            vec!["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        all.extend_from_slice(options);
        let server = Server::start(&all);
        let mut client = server.client();
        let port = wait_for(|| {
            let port = free_port();
            (client.text(&["CONFIG", "SET", "tls-port", &port.to_string()]) == "OK").then_some(port)
        });
        Self { server, port, authority, files }
    }

    fn connect_as(&self, config: &Arc<ClientConfig>) -> SecureClient {
        SecureClient::connect(self.port, Arc::clone(config))
    }

    fn client(&self, own: Option<&Issued>) -> SecureClient {
        self.connect_as(&self.authority.client(own))
    }
}

/// Runs a test on each backend.
fn on_each_backend(name: &str, options: &[&str], test: impl Fn(Secure)) {
    for backend in backends() {
        let mut all = vec!["--io-backend", backend];
        all.extend_from_slice(options);
        test(Secure::start(&format!("{name}-{backend}"), &all));
    }
}

struct SecureClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

impl SecureClient {
    fn connect(port: u16, config: Arc<ClientConfig>) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        Self { stream: StreamOwned::new(connection, socket), buffer: Vec::new() }
    }

    fn send(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes()).unwrap();
        self.stream.flush().unwrap();
    }

    /// The next reply; `Err`: the error of the connection.
    fn receive(&mut self) -> Result<Reply, String> {
        loop {
            if let Some((reply, size)) = Reply::parse(&self.buffer).unwrap() {
                self.buffer.drain(..size);
                return Ok(reply);
            }
            let mut chunk = vec![0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(size) => self.buffer.extend_from_slice(&chunk[..size]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn text(&mut self, words: &[&str]) -> String {
        self.send(words);
        shown(&self.receive().expect("the server stays"))
    }

    /// The error of a connection that is refused.
    fn refusal(&mut self) -> String {
        let request = b"*1\r\n$4\r\nPING\r\n";
        if let Err(error) = self.stream.write_all(request).and_then(|()| self.stream.flush()) {
            return error.to_string();
        }
        self.receive().expect_err("a refusal")
    }
}

#[test]
fn requests_are_served() {
    on_each_backend("requests", &["--tls-auth-clients", "no"], |secure| {
        let mut client = secure.client(None);
        assert_eq!(client.text(&["PING"]), "PONG");
        // Longer than records, and replies that are shared and sent in portions.
        let long = "0123456789".repeat(300_000);
        assert_eq!(client.text(&["SET", "long", &long]), "OK");
        assert!(client.text(&["GET", "long"]) == long);
        for _ in 0..3 {
            client.send(&["GET", "long"]);
            client.send(&["GET", "short"]);
        }
        for _ in 0..3 {
            assert!(shown(&client.receive().unwrap()) == long);
            assert_eq!(shown(&client.receive().unwrap()), "");
        }
        let listed = client.text(&["CLIENT", "LIST"]);
        assert!(listed.contains(&format!("laddr=127.0.0.1:{}", secure.port)), "{listed}");
        // A pipeline in one record, and a record for each byte.
        let pipeline = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".repeat(100);
        client.stream.write_all(pipeline.as_bytes()).unwrap();
        for byte in b"*1\r\n$4\r\nPING\r\n" {
            client.stream.write_all(&[*byte]).unwrap();
        }
        client.stream.flush().unwrap();
        for number in 1..=100 {
            assert_eq!(shown(&client.receive().unwrap()), number.to_string());
        }
        assert_eq!(shown(&client.receive().unwrap()), "PONG");
        // Messages of other connections.
        assert_eq!(client.text(&["SUBSCRIBE", "news"]), "subscribe\nnews\n1");
        assert_eq!(secure.server.client().text(&["PUBLISH", "news", "hello"]), "1");
        assert_eq!(shown(&client.receive().unwrap()), "message\nnews\nhello");
        // The last record says that no more comes.
        client.send(&["QUIT"]);
        assert_eq!(shown(&client.receive().unwrap()), "OK");
        assert_eq!(client.receive().unwrap_err(), "closed");
    });
}

#[test]
fn clients_need_the_configured_certificates() {
    on_each_backend("certificates", &[], |secure| {
        let known = secure.authority.issue("alice", &[]);
        let unknown = Authority::new("other").issue("alice", &[]);
        let mut plain = secure.server.client();
        assert_eq!(secure.client(Some(&known)).text(&["PING"]), "PONG");
        assert!(secure.client(None).refusal().contains("CertificateRequired"));
        assert!(!secure.client(Some(&unknown)).refusal().is_empty());
        assert_eq!(secure.server.info(&mut plain, "tls_failed_handshakes"), "2");
        secure.server.log_line("Error accepting a client connection: peer sent no certificates");
        assert_eq!(plain.text(&["CONFIG", "SET", "tls-auth-clients", "optional"]), "OK");
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
        assert!(!secure.client(Some(&unknown)).refusal().is_empty());
        assert_eq!(plain.text(&["CONFIG", "SET", "tls-auth-clients", "no"]), "OK");
        assert_eq!(secure.client(Some(&unknown)).text(&["PING"]), "PONG");
    });
}

#[test]
fn certificates_name_users() {
    let secure = Secure::start("users", &[]);
    let mut plain = secure.server.client();
    assert_eq!(plain.text(&["CONFIG", "SET", "requirepass", "secret"]), "OK");
    let own = secure.authority.issue("alice", &["urn:user:first", "urn:user:second"]);
    let whoami = || secure.client(Some(&own)).text(&["ACL", "WHOAMI"]);
    let mut set = |words: &[&str]| assert_eq!(plain.text(words), "OK");
    set(&["ACL", "SETUSER", "alice", "on", "+@all"]);
    assert!(whoami().starts_with("NOAUTH"));
    set(&["CONFIG", "SET", "tls-auth-clients-user", "CN"]);
    assert_eq!(whoami(), "alice");
    set(&["CONFIG", "SET", "tls-auth-clients-user", "URI"]);
    set(&["ACL", "SETUSER", "urn:user:first", "off", "+@all"]);
    set(&["ACL", "SETUSER", "urn:user:second", "on", "+@all"]);
    assert_eq!(whoami(), "urn:user:second");
    let listed = secure.client(Some(&own)).text(&["CLIENT", "INFO"]);
    assert!(listed.contains("user=urn:user:second"), "{listed}");
    set(&["ACL", "SETUSER", "urn:user:second", "off"]);
    assert!(whoami().starts_with("NOAUTH"));
    assert_eq!(secure.server.info(&mut plain, "acl_access_denied_tls_cert"), "1");
    let log = plain.text(&["ACL", "LOG", "1"]);
    assert!(log.contains("reason\ntls-cert\n") && log.contains("username\nurn:user:second\n"), "{log}");
}

#[test]
fn certificates_are_reloaded_as_a_whole_or_not_at_all() {
    on_each_backend("reload", &["--tls-auth-clients", "no", "--loglevel", "debug"], |secure| {
        let (server, files) = (&secure.server, &secure.files);
        let mut plain = server.client();
        let mut before = secure.client(None);
        assert_eq!(before.text(&["PING"]), "PONG");
        let serial = server.info(&mut plain, "tls_server_cert_serial");
        files.put("other", &secure.authority.issue("other", &[]));
        let refused = "ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - Unable to update TLS \
                       configuration. Check server logs.";
        let (certificate, key) = (files.path("other.crt"), files.path("other.key"));
        assert_eq!(plain.text(&["CONFIG", "SET", "tls-cert-file", &certificate]), refused);
        assert_eq!(
            plain.text(&["CONFIG", "GET", "tls-cert-file"]).lines().last(),
            Some(&*files.path("server.crt"))
        );
        server.log_line("the key is not that of the certificate");
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
        let both = ["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key];
        // Another directive fails: everything stays as it was.
        assert!(plain.text(&[&both[..], &["dir", "/none"]].concat()).starts_with("ERR CONFIG SET failed"));
        assert_eq!(server.info(&mut plain, "tls_server_cert_serial"), serial);
        assert_eq!(plain.text(&both), "OK");
        let second = server.info(&mut plain, "tls_server_cert_serial");
        assert_ne!(second, serial);
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
        // The files change, and are read again.
        assert_eq!(plain.text(&["CONFIG", "SET", "tls-auto-reload-interval", "1"]), "OK");
        server.log_line("TLS reload skipped: materials unchanged");
        files.put("other", &secure.authority.issue("third", &[]));
        server.log_line("TLS materials reloaded successfully");
        assert_ne!(server.info(&mut plain, "tls_server_cert_serial"), second);
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
        assert_eq!(before.text(&["PING"]), "PONG");
    });
}

#[test]
fn the_port_can_be_opened_and_closed() {
    let secure = Secure::start("port", &["--tls-auth-clients", "no"]);
    let mut before = secure.client(None);
    assert_eq!(before.text(&["PING"]), "PONG");
    let listener = before.text(&["INFO", "server"]);
    assert!(
        listener.contains(&format!("listener1:name=tls,bind=127.0.0.1,port={}", secure.port)),
        "{listener}"
    );
    assert_eq!(before.text(&["CONFIG", "SET", "tls-port", "0"]), "OK");
    wait_for(|| TcpStream::connect(("127.0.0.1", secure.port)).is_err().then_some(()));
    assert_eq!(before.text(&["PING"]), "PONG");
    // The plain port takes its place, and gives it back.
    let (own, plain) = (secure.port.to_string(), secure.server.port.to_string());
    assert_eq!(before.text(&["CONFIG", "SET", "port", &own]), "OK");
    assert_eq!(
        wait_for(|| TcpStream::connect(("127.0.0.1", secure.port))
            .ok()
            .map(|_| Client::connect(secure.port)))
        .text(&["PING"]),
        "PONG"
    );
    assert_eq!(before.text(&["CONFIG", "SET", "port", &plain, "tls-port", &own]), "OK");
    assert_eq!(secure.client(None).text(&["PING"]), "PONG");
    assert_eq!(
        before.text(&["CONFIG", "SET", "tls-port", &plain]),
        "ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. Check server logs."
    );
    assert_eq!(secure.client(None).text(&["PING"]), "PONG");
}

#[test]
fn sessions_are_resumed() {
    let secure = Secure::start("sessions", &["--tls-auth-clients", "no", "--io-threads", "2"]);
    let config = secure.authority.client(None);
    let connect = || {
        let mut client = secure.connect_as(&config);
        assert_eq!(client.text(&["PING"]), "PONG");
        client.stream.conn.handshake_kind().unwrap()
    };
    assert_eq!(connect(), rustls::HandshakeKind::Full);
    for _ in 0..4 {
        assert_eq!(connect(), rustls::HandshakeKind::Resumed);
    }
    assert_eq!(secure.server.client().text(&["CONFIG", "SET", "tls-session-caching", "no"]), "OK");
    assert_eq!(connect(), rustls::HandshakeKind::Full);
    assert_eq!(connect(), rustls::HandshakeKind::Full);
}

#[test]
fn connections_move_between_workers() {
    on_each_backend("moves", &["--tls-auth-clients", "no", "--io-threads", "4"], |secure| {
        let mut clients: Vec<SecureClient> = (0..8).map(|_| secure.client(None)).collect();
        let mut waiting = secure.client(None);
        waiting.send(&["BLPOP", "list", "0"]);
        let long = "x".repeat(1 << 20);
        let mut plain = secure.server.client();
        for round in 0..6 {
            // Replies, requests and handshakes are under way while the workers change.
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(&["SET", &number.to_string(), &long]);
                client.send(&["GET", &number.to_string()]);
            }
            let mut new: Vec<SecureClient> = (0..4).map(|_| secure.client(None)).collect();
            new.iter_mut().for_each(|client| client.send(&["PING"]));
            plain.set_thread_count(if round % 2 == 0 { 1 } else { 4 });
            for client in &mut clients {
                assert_eq!(shown(&client.receive().unwrap()), "OK");
                assert!(shown(&client.receive().unwrap()) == long);
            }
            for client in &mut new {
                assert_eq!(shown(&client.receive().unwrap()), "PONG");
            }
        }
        assert_eq!(plain.text(&["RPUSH", "list", "a"]), "1");
        assert_eq!(shown(&waiting.receive().unwrap()), "list\na");
    });
}

#[test]
fn hostile_clients_are_closed() {
    on_each_backend("hostile", &["--tls-auth-clients", "no"], |secure| {
        let open = || TcpStream::connect(("127.0.0.1", secure.port)).unwrap();
        let mut plain = secure.server.client();
        let read = |mut socket: TcpStream| {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut received = Vec::new();
            match socket.read_to_end(&mut received) {
                Ok(_) => received,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => Vec::new(),
                Err(error) => panic!("the server does not close: {error}"),
            }
        };
        // Clients without TLS, and garbage.
        for bytes in [&b"PING\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 10_000], &[0x16, 3, 1, 0x40, 0, 2]] {
            let mut socket = open();
            socket.write_all(bytes).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read(socket), b"");
        }
        // Handshakes that end early.
        let config = secure.authority.client(None);
        let mut connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let mut hello = Vec::new();
        connection.write_tls(&mut hello).unwrap();
        for size in [0, 1, 5, 6, hello.len() - 1] {
            let mut socket = open();
            socket.write_all(&hello[..size]).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read(socket), b"");
        }
        // A slow handshake delays no other connection.
        let mut slow = open();
        for byte in &hello[..hello.len() / 2] {
            slow.write_all(&[*byte]).unwrap();
        }
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
        // A stream that is damaged, and one that is cut.
        let mut client = secure.client(None);
        assert_eq!(client.text(&["PING"]), "PONG");
        client
            .stream
            .sock
            .write_all(&[
                23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            ])
            .unwrap();
        assert!(client.receive().unwrap_err().contains("BadRecordMac"));
        let mut client = secure.client(None);
        assert_eq!(client.text(&["PING"]), "PONG");
        client.stream.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.receive().unwrap_err(), "closed");
        drop(slow);
        wait_for(|| (secure.server.info(&mut plain, "connected_clients") == "1").then_some(()));
        wait_for(|| (secure.server.info(&mut plain, "tls_failed_handshakes") == "10").then_some(()));
        assert_eq!(secure.client(None).text(&["PING"]), "PONG");
    });
}

#[test]
fn a_slow_reader_is_limited() {
    on_each_backend(
        "slow",
        &["--tls-auth-clients", "no", "--client-output-buffer-limit", "normal 8mb 0 0"],
        |secure| {
            let mut plain = secure.server.client();
            assert_eq!(plain.text(&["SETRANGE", "long", "4000000", "x"]), "4000001");
            let mut slow = secure.client(None);
            for _ in 0..20 {
                slow.send(&["GET", "long"]);
            }
            secure.server.log_line("closed for overcoming of output buffer limits");
            // A reader in time gets everything, in portions.
            let mut client = secure.client(None);
            for _ in 0..20 {
                assert_eq!(client.text(&["GET", "long"]).len(), 4_000_001);
            }
        },
    );
}

#[test]
fn input_of_a_blocked_client_waits_with_the_client() {
    on_each_backend("input", &["--tls-auth-clients", "no", "--io-threads", "1"], |secure| {
        let mut admin = secure.server.client();
        let mut blocked = secure.client(None);
        blocked.send(&["BLPOP", "queue", "0"]);
        let flooding = std::thread::spawn(move || {
            let piece = b"PING\r\n".repeat(10_000);
            (0..1000).all(|_| blocked.stream.write_all(&piece).is_ok())
        });
        let received = |admin: &mut Client| -> usize {
            secure.server.info(admin, "total_net_input_bytes").parse().unwrap()
        };
        wait_for(|| (received(&mut admin) > 1_000_000).then_some(()));
        for _ in 0..100 {
            let held: usize = secure.server.info(&mut admin, "mem_clients_normal").parse().unwrap();
            assert!(!flooding.is_finished() && held < 16 << 20 && received(&mut admin) < 30 << 20, "{held}");
        }
        secure.server.signal("KILL");
        assert!(!flooding.join().unwrap());
    });
}

#[test]
fn many_connect_at_once() {
    on_each_backend("many", &["--tls-auth-clients", "no", "--io-threads", "2"], |secure| {
        let config = secure.authority.client(None);
        let mut clients: Vec<SecureClient> = (0..60).map(|_| secure.connect_as(&config)).collect();
        // All hellos first.
        for client in &mut clients {
            client.stream.conn.write_tls(&mut client.stream.sock).unwrap();
        }
        for client in clients.iter_mut().rev() {
            assert_eq!(client.text(&["PING"]), "PONG");
        }
        let mut plain = secure.server.client();
        assert_eq!(secure.server.info(&mut plain, "connected_clients"), "61");
    });
}

#[test]
fn a_server_without_usable_certificates_does_not_start() {
    let (text, succeeded) = support::run(&["--port", "0", "--tls-port", &free_port().to_string()], "");
    assert!(!succeeded && text.contains("No tls-cert-file configured!"), "{text}");
    assert!(text.contains("Failed to configure TLS. Check logs for more info."), "{text}");
}

/// Sends `MIGRATE` of a key to a port.
fn migrate(source: &mut Client, port: u16, key: &str, timeout_ms: &str) -> String {
    source.text(&["MIGRATE", "127.0.0.1", &port.to_string(), key, "0", timeout_ms])
}

const NOT_CONNECTED: &str = "IOERR error or timeout connecting to the client";

#[test]
fn keys_move_over_tls() {
    on_each_backend("migrating", &["--io-threads", "2"], |source| {
        let target_files = Files::new(&format!("target-{}", source.port), &source.authority);
        let [certificate, key, ca] =
            ["server.crt", "server.key", "ca.crt"].map(|name| target_files.path(name));
        let options = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        // Its clients need a certificate.
        let target = Server::start(&options);
        let mut there = target.client();
        let port = wait_for(|| {
            let port = free_port();
            (there.text(&["CONFIG", "SET", "tls-port", &port.to_string()]) == "OK").then_some(port)
        });
        let mut here = source.server.client();
        assert_eq!(here.text(&["CONFIG", "SET", "tls-cluster", "yes"]), "OK");
        here.text(&["MSET", "a", "1", "b", "2"]);
        here.text(&["SETRANGE", "long", "5000000", "x"]);
        let before: u64 = target.info(&mut there, "total_connections_received").parse().unwrap();
        for key in ["a", "long", "b"] {
            // The connection is cached, and used by either worker.
            assert_eq!(migrate(&mut source.server.client(), port, key, "5000"), "OK", "{key}");
            assert_eq!(source.server.info(&mut here, "migrate_cached_sockets"), "1");
        }
        assert_eq!(here.text(&["DBSIZE"]), "0");
        assert_eq!(there.text(&["MGET", "a", "b"]), "1\n2");
        assert_eq!(there.text(&["STRLEN", "long"]), "5000001");
        let count =
            |there: &mut Client| -> u64 { target.info(there, "total_connections_received").parse().unwrap() };
        assert_eq!(count(&mut there), before + 1);
        // What was trusted then may not be now.
        let ca = source.files.path("ca.crt");
        assert_eq!(here.text(&["CONFIG", "SET", "tls-ca-cert-file", &ca]), "OK");
        here.text(&["SET", "a", "1"]);
        assert_eq!(
            here.text(&["MIGRATE", "127.0.0.1", &port.to_string(), "a", "0", "5000", "REPLACE"]),
            "OK"
        );
        assert_eq!(count(&mut there), before + 2);
    });
}

#[test]
fn keys_move_to_known_servers_only() {
    let source = Secure::start("moving-from", &[]);
    let other = Secure::start("moving-to", &["--tls-auth-clients", "no"]);
    let mut here = source.server.client();
    assert_eq!(here.text(&["CONFIG", "SET", "tls-cluster", "yes"]), "OK");
    assert_eq!(here.text(&["SET", "a", "1"]), "OK");
    // Its certificate is one of another authority.
    assert_eq!(migrate(&mut here, other.port, "a", "5000"), NOT_CONNECTED);
    source.server.log_line("failed: invalid peer certificate");
    other.server.log_line("Error accepting a client connection: received fatal alert");
    // These do not use TLS, do not exist, and do not answer.
    assert_eq!(migrate(&mut here, other.server.port, "a", "5000"), NOT_CONNECTED);
    assert_eq!(migrate(&mut here, free_port(), "a", "5000"), NOT_CONNECTED);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(migrate(&mut here, silent.local_addr().unwrap().port(), "a", "100"), NOT_CONNECTED);
    assert_eq!(here.text(&["GET", "a"]), "1");
    // Without TLS the plain port works, and the TLS port does not.
    assert_eq!(here.text(&["CONFIG", "SET", "tls-cluster", "no"]), "OK");
    assert!(migrate(&mut here, source.port, "a", "1000").starts_with("IOERR error or timeout reading"));
    assert_eq!(migrate(&mut here, other.server.port, "a", "5000"), "OK");
}

#[test]
fn connections_to_nodes_need_certificates() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let refused = client.text(&["CONFIG", "SET", "tls-cluster", "yes"]);
    assert!(refused.contains("Unable to update TLS configuration"), "{refused}");
    assert_eq!(client.text(&["CONFIG", "GET", "tls-cluster"]), "tls-cluster\nno");
}
