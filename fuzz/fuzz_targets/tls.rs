//! The server's side of TLS never panics, whatever a client sends: arbitrary bytes, endless repetitions of them, and the
//! bytes of a valid client with changes. Its memory is bounded, and an unchanged client is served.
//!
//! The first byte selects the client and what is sent, the second the size of the pieces. The rest are the bytes, or the
//! changes: 4 bytes each.

#![no_main]

#[path = "../../crates/tls/tests/support/mod.rs"]
mod certificates;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use certificates::{Authority, Files};
use libfuzzer_sys::fuzz_target;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};
use tls::{ClientCertificates, Context, Progress, Settings, Stream};

/// The memory of a connection, at most. A message of a handshake has up to 64 KiB, in records of a byte at least, each with
/// a header of 5 bytes; the buffer of such input grows by doubling.
const MEMORY_SIZE_MAX: usize = 1 << 20;

/// What the server sends to a client that is not served, at most.
const HANDSHAKE_OUTPUT_SIZE_MAX: usize = 64 << 10;

/// The size of endless input.
const ENDLESS_SIZE: usize = 2 << 20;

/// What the client sends after its handshake.
const REQUEST: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// The server, and clients of it.
struct World {
    context: Context,
    /// TLS 1.2 and 1.3, without and with a certificate.
    clients: [Arc<ClientConfig>; 4],
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let authority = Authority::new("authority");
    let files = Files::new("fuzz", &authority);
    let settings = Settings {
        cert_file: files.path("server.crt"),
        key_file: files.path("server.key"),
        ca_cert_file: files.path("ca.crt"),
        client_certificates: ClientCertificates::Optional,
        session_caching: true,
        session_cache_size: 100,
        session_cache_timeout_seconds: 300,
        ..Settings::default()
    };
    let own = authority.issue("client", &["urn:client"]);
    let client = |own, version| authority.client_of_version(own, &[version]);
    World {
        context: Context::load(&settings).expect("the files are valid"),
        clients: [
            client(None, &TLS12),
            client(None, &TLS13),
            client(Some(&own), &TLS12),
            client(Some(&own), &TLS13),
        ],
    }
});

/// A server's stream that checks itself.
struct Checked {
    stream: Stream,
    piece_size: usize,
    received_size: usize,
    plain: Vec<u8>,
    sent_size: usize,
}

impl Checked {
    fn new(piece_size: usize) -> Self {
        let stream = Stream::new(&WORLD.context).expect("the context is valid");
        Self { stream, piece_size, received_size: 0, plain: Vec::new(), sent_size: 0 }
    }

    /// Passes bytes to the stream. Returns what it sends, and whether it goes on.
    fn receive(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        for piece in bytes.chunks(self.piece_size) {
            self.received_size += piece.len();
            let progress = self.stream.receive(&mut piece.to_vec(), &mut self.plain, &mut out);
            assert!(self.stream.memory_bytes() <= MEMORY_SIZE_MAX, "{} bytes", self.stream.memory_bytes());
            assert!(self.plain.len() <= self.received_size);
            assert_eq!(self.stream.has_failed(), progress.is_err());
            if self.stream.is_handshaking() {
                assert!(self.plain.is_empty(), "plain bytes before the handshake is done");
                assert!(self.sent_size + out.len() <= HANDSHAKE_OUTPUT_SIZE_MAX);
            }
            match progress {
                Ok(Progress::Handshake) => assert!(self.stream.is_handshaking()),
                Ok(Progress::Traffic) => assert!(!self.stream.is_handshaking()),
                Ok(Progress::Closed) => return (out, false),
                Err(_) => {
                    self.check_failed();
                    return (out, false);
                }
            }
        }
        self.sent_size += out.len();
        (out, true)
    }

    /// A failed stream does nothing any more.
    fn check_failed(&mut self) {
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        assert!(self.stream.receive(&mut REQUEST.to_vec(), &mut plain, &mut out).is_err());
        assert!(self.stream.encrypt(REQUEST, &mut out).is_err());
        self.stream.close(&mut out);
        assert!(plain.is_empty() && out.is_empty());
    }

    /// Sends a reply, as the server does at any time after the handshake.
    fn reply(&mut self) -> Vec<u8> {
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        self.stream.queue(b"+PO".to_vec());
        self.stream.queue_shared(Arc::new(b"NG\r\n".to_vec()));
        let result = self.stream.encrypt_queued(usize::MAX, &mut scratch, &mut out);
        if !self.stream.is_handshaking() {
            result.expect("the connection goes on");
            assert_eq!(self.stream.queued_size(), 0);
        }
        out
    }
}

/// Changes the bytes that a client sends as its flight of this number.
fn change(bytes: &mut Vec<u8>, flight: u8, changes: &[[u8; 4]]) {
    for &[what, low, high, value] in changes.iter().filter(|[what, ..]| what >> 6 == flight.min(3)) {
        if bytes.is_empty() {
            return;
        }
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
        match what % 6 {
            0 => bytes[at] ^= value.max(1),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, value),
            3 => drop(bytes.remove(at)),
            4 => {
                let copied = bytes[at..].iter().copied().take(usize::from(value)).collect::<Vec<_>>();
                bytes.splice(at..at, copied);
            }
            _ => bytes.rotate_left(at),
        }
    }
}

/// Lets a client do its handshake, send a request, read the reply and end, with changes in what it sends.
fn talk(config: &Arc<ClientConfig>, mut stream: Checked, changes: &[[u8; 4]]) {
    let name = "localhost".try_into().expect("a valid name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a valid configuration");
    let mut has_asked = false;
    let mut read = Vec::new();
    for flight in 0..10 {
        if !client.is_handshaking() && !has_asked {
            has_asked = true;
            client.writer().write_all(REQUEST).expect("room for a request");
        }
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("a buffer takes all bytes");
        }
        change(&mut sent, flight, changes);
        let (mut out, goes_on) = stream.receive(&sent);
        if goes_on && stream.plain.len() >= REQUEST.len() {
            out.extend(stream.reply());
        }
        let mut rest = &out[..];
        while !rest.is_empty() {
            if client.read_tls(&mut rest).is_err() || client.process_new_packets().is_err() {
                assert!(!changes.is_empty(), "the client refuses the server");
                return;
            }
        }
        let mut buffer = [0; 64];
        if let Ok(size) = client.reader().read(&mut buffer) {
            read.extend_from_slice(&buffer[..size]);
            client.send_close_notify();
        }
        if !goes_on {
            break;
        }
    }
    if changes.is_empty() {
        assert_eq!(stream.plain, REQUEST);
        assert!(read.starts_with(b"+PONG\r\n"), "an unchanged client is served");
    }
}

fuzz_target!(|data: &[u8]| {
    let [selection, piece, input @ ..] = data else { return };
    // One byte at a time, or up to what a buffer of the reactor holds.
    let piece_size = 1 + usize::from(*piece) * usize::from(*piece) / 4;
    let stream = Checked::new(piece_size);
    match selection >> 4 {
        0..4 => drop({ stream }.receive(input)),
        4..6 if !input.is_empty() => {
            let mut stream = Checked::new(piece_size.max(input.len()).max(1 << 10));
            let block: Vec<u8> = input.iter().copied().cycle().take(ENDLESS_SIZE.min(1 << 16)).collect();
            for _ in 0..ENDLESS_SIZE / block.len() {
                if !stream.receive(&block).1 {
                    return;
                }
            }
        }
        _ => {
            let changes: Vec<[u8; 4]> = input.as_chunks::<4>().0.to_vec();
            talk(&WORLD.clients[usize::from(*selection) % 4], stream, &changes);
        }
    }
});
