//! A stream against a client in the same process: any cut of the bytes, garbage, certificates, sessions, portions.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ClientConnection;
use support::{Authority, Files, Issued};
use tls::{ClientCertificates, Context, Identity, LoadError, Progress, Settings, Stream};

fn settings(files: &Files) -> Settings {
    Settings {
        cert_file: files.path("server.crt"),
        key_file: files.path("server.key"),
        ca_cert_file: files.path("ca.crt"),
        session_caching: true,
        session_cache_size: 100,
        session_cache_timeout_seconds: 300,
        ..Settings::default()
    }
}

/// A client and a stream; bytes from the client are passed on in pieces of `piece_size`.
struct Pair {
    client: ClientConnection,
    stream: Stream,
    piece_size: usize,
    received: Vec<u8>,
    read: Vec<u8>,
    progress: Progress,
}

impl Pair {
    fn new(context: &Context, config: Arc<rustls::ClientConfig>, piece_size: usize) -> Self {
        let client = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let stream = Stream::new(context).unwrap();
        Self {
            client,
            stream,
            piece_size,
            received: Vec::new(),
            read: Vec::new(),
            progress: Progress::Handshake,
        }
    }

    /// Passes bytes on in both directions until nothing is left. `Err`: the server's error.
    fn exchange(&mut self) -> Result<(), String> {
        loop {
            let mut sent = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut sent).unwrap();
            }
            let mut out = Vec::new();
            let mut result = Ok(());
            for piece in sent.chunks(self.piece_size) {
                match self.stream.receive(&mut piece.to_vec(), &mut self.received, &mut out) {
                    Ok(progress) => self.progress = progress,
                    Err(error) => result = Err(error.to_string()),
                }
                if result.is_err() {
                    break;
                }
            }
            self.give(&out);
            result?;
            if sent.is_empty() {
                return Ok(());
            }
        }
    }

    /// Gives the client what the server has sent.
    fn give(&mut self, mut out: &[u8]) {
        while !out.is_empty() {
            self.client.read_tls(&mut out).unwrap();
            // An alert is an error, which tests look at in other ways.
            let _ = self.client.process_new_packets();
            let _ = self.client.reader().read_to_end(&mut self.read);
        }
    }

    fn read(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.read)
    }
}

#[test]
fn any_cut_of_the_bytes_leads_to_the_same() {
    let authority = Authority::new("authority");
    let files = Files::new("cuts", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        for piece_size in [1, 2, 3, 7, 100, 1000, 100_000] {
            let config = authority.client_of_version(None, versions);
            let mut pair = Pair::new(&context, config, piece_size);
            assert!(pair.stream.is_handshaking());
            pair.exchange().unwrap();
            assert_eq!(pair.progress, Progress::Traffic);
            let long: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
            for sent in [b"PING\r\n", &b"x"[..], &long] {
                pair.client.writer().write_all(sent).unwrap();
                pair.exchange().unwrap();
                assert!(std::mem::take(&mut pair.received) == sent, "pieces of {piece_size}");
                assert_eq!(pair.stream.kept_size(), 0);
            }
            let mut out = Vec::new();
            pair.stream.encrypt(&long, &mut out).unwrap();
            pair.give(&out);
            assert!(pair.read() == long);
            pair.client.send_close_notify();
            pair.exchange().unwrap();
            assert_eq!(pair.progress, Progress::Closed);
        }
    }
}

#[test]
fn output_leaves_between_the_parts_of_input() {
    let authority = Authority::new("authority");
    let files = Files::new("between", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let mut pair = Pair::new(&context, authority.client_of_version(None, versions), 4096);
        pair.exchange().unwrap();
        if versions == [&rustls::version::TLS13] {
            // The next record has new keys.
            pair.client.refresh_traffic_keys().unwrap();
        }
        pair.client.writer().write_all(b"PING").unwrap();
        let mut sent = Vec::new();
        pair.client.write_tls(&mut sent).unwrap();
        let mut out = Vec::new();
        for byte in &sent {
            pair.stream.receive(&mut [*byte], &mut pair.received, &mut out).unwrap();
            pair.stream.encrypt(b"x", &mut out).unwrap();
        }
        assert_eq!(pair.received, b"PING");
        pair.give(&out);
        assert_eq!(pair.read(), vec![b'x'; sent.len()]);
    }
}

#[test]
fn queued_output_is_encrypted_in_portions() {
    let authority = Authority::new("authority");
    let files = Files::new("portions", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    let mut pair = Pair::new(&context, authority.client(None), 4096);
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    // Nothing is sent before the handshake is done.
    pair.stream.queue(b"early ".to_vec());
    pair.stream.encrypt_queued(1 << 20, &mut scratch, &mut out).unwrap();
    assert!(out.is_empty());
    pair.exchange().unwrap();
    let text = Arc::new(vec![b'x'; 1 << 20]);
    pair.stream.queue_shared(Arc::clone(&text));
    pair.stream.queue(b" end".to_vec());
    assert_eq!(pair.stream.queued_size(), (1 << 20) + 10);
    let mut read = Vec::new();
    while pair.stream.queued_size() > 0 {
        out.clear();
        pair.stream.encrypt_queued(64 << 10, &mut scratch, &mut out).unwrap();
        assert!(out.len() < 90 << 10);
        pair.give(&out);
        read.extend(pair.read());
    }
    assert!(read == [b"early ", &text[..], b" end"].concat());
    out.clear();
    pair.stream.close(&mut out);
    pair.give(&out);
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn garbage_is_an_error() {
    let authority = Authority::new("authority");
    let files = Files::new("garbage", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    for garbage in
        [&b"*1\r\n$4\r\nPING\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 100], &[0x16, 3, 1, 0xFF, 0xFF, 1]]
    {
        let mut stream = Stream::new(&context).unwrap();
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        stream.receive(&mut garbage.to_vec(), &mut plain, &mut out).unwrap_err();
        assert!(out.is_empty(), "no alert for a client that does not speak TLS");
        stream.receive(&mut b"more".to_vec(), &mut plain, &mut out).unwrap_err();
        stream.encrypt(b"x", &mut out).unwrap_err();
        assert!(plain.is_empty());
    }
    // A record that is damaged on the way.
    let mut pair = Pair::new(&context, authority.client(None), 4096);
    pair.exchange().unwrap();
    pair.client.writer().write_all(b"PING").unwrap();
    let mut sent = Vec::new();
    pair.client.write_tls(&mut sent).unwrap();
    let last = sent.len() - 1;
    sent[last] ^= 1;
    let mut out = Vec::new();
    let error = pair.stream.receive(&mut sent, &mut Vec::new(), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "cannot decrypt peer's message");
    pair.give(&out);
    let error = pair.client.process_new_packets().unwrap_err();
    assert_eq!(error.to_string(), "received fatal alert: BadRecordMac");
}

#[test]
fn mutated_handshakes_never_panic() {
    let authority = Authority::new("authority");
    let files = Files::new("mutations", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut pair = Pair::new(&context, authority.client(None), 4096);
        let rounds = random(2);
        for round in 0..=rounds {
            let mut sent = Vec::new();
            while pair.client.wants_write() {
                pair.client.write_tls(&mut sent).unwrap();
            }
            if round == rounds {
                for _ in 0..=random(4) {
                    let (place, value) = (random(sent.len()), random(256) as u8);
                    sent[place] = value;
                }
                sent.truncate(sent.len() - random(sent.len()));
            }
            let mut out = Vec::new();
            let size = 1 + random(500);
            for piece in sent.chunks(size) {
                if pair.stream.receive(&mut piece.to_vec(), &mut Vec::new(), &mut out).is_err() {
                    break;
                }
            }
            pair.give(&out);
        }
    }
}

#[test]
fn clients_are_known_by_their_certificates() {
    let authority = Authority::new("authority");
    let other = Authority::new("other");
    let files = Files::new("clients", &authority);
    let known = authority.issue("alice", &["urn:user:a", "urn:user:b"]);
    let unknown = other.issue("alice", &[]);
    let connect = |wanted, own| {
        let context = Context::load(&Settings { client_certificates: wanted, ..settings(&files) }).unwrap();
        let mut pair = Pair::new(&context, authority.client(own), 4096);
        pair.exchange().map(|()| pair.stream.peer_identity())
    };
    let identity = Identity {
        common_name: Some(b"alice".to_vec()),
        uris: vec![b"urn:user:a".to_vec(), b"urn:user:b".to_vec()],
    };
    assert_eq!(connect(ClientCertificates::Required, Some(&known)), Ok(Some(identity.clone())));
    assert_eq!(connect(ClientCertificates::Optional, Some(&known)), Ok(Some(identity)));
    assert_eq!(connect(ClientCertificates::Optional, None), Ok(None));
    assert_eq!(connect(ClientCertificates::None, Some(&known)), Ok(None));
    assert_eq!(connect(ClientCertificates::Required, None).unwrap_err(), "peer sent no certificates");
    let error = connect(ClientCertificates::Optional, Some(&unknown)).unwrap_err();
    assert!(error.starts_with("invalid peer certificate"), "{error}");
}

#[test]
fn sessions_are_resumed_if_they_are_kept() {
    let authority = Authority::new("authority");
    let files = Files::new("sessions", &authority);
    let own = authority.issue("alice", &[]);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        for is_kept in [true, false] {
            let wanted = ClientCertificates::Required;
            let settings =
                Settings { session_caching: is_kept, client_certificates: wanted, ..settings(&files) };
            let context = Context::load(&settings).unwrap();
            let config = authority.client_of_version(Some(&own), versions);
            for round in 0..3 {
                let mut pair = Pair::new(&context, Arc::clone(&config), 4096);
                pair.exchange().unwrap();
                assert_eq!(pair.stream.is_resumed(), is_kept && round > 0);
                let name = pair.stream.peer_identity().unwrap().common_name;
                assert_eq!(name.as_deref(), Some(&b"alice"[..]));
            }
        }
    }
}

#[test]
fn settings_choose_versions_and_suites() {
    let authority = Authority::new("authority");
    let files = Files::new("suites", &authority);
    let connect = |protocols: &str, ciphers: &str, versions: &[&'static rustls::SupportedProtocolVersion]| {
        let settings =
            Settings { protocols: protocols.to_owned(), ciphers: ciphers.to_owned(), ..settings(&files) };
        let context = Context::load(&settings).unwrap();
        let mut pair = Pair::new(&context, authority.client_of_version(None, versions), 4096);
        pair.exchange().map(|()| format!("{:?}", pair.client.negotiated_cipher_suite().unwrap().suite()))
    };
    let tls12 = &[&rustls::version::TLS12][..];
    assert!(connect("TLSv1.2", "", rustls::ALL_VERSIONS).unwrap().starts_with("TLS_ECDHE_ECDSA"));
    assert!(connect("TLSv1.3", "", rustls::ALL_VERSIONS).unwrap().starts_with("TLS13"));
    connect("TLSv1.3", "", tls12).unwrap_err();
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    assert_eq!(connect("", "ECDHE-ECDSA-CHACHA20-POLY1305", tls12).unwrap(), suite);
    connect("", "aRSA", tls12).unwrap_err();
}

/// A certificate without extensions, as scripts of old make them.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBFjCBvQIUWn43np3x70It7LTW+zcOaKk65LIwCgYIKoZIzj0EAwIwDTELMAkG\n\
    A1UEAwwCdjEwIBcNMjYxMTI1MjIwMTA4WhgPMjEyNjExMDEyMjAxMDhaMA0xCzAJ\n\
    BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAERwNZNW5MkCi/t+np\n\
    mJMCkEbi2Dve4nElUYj6eUxvzDDphkZRY4HogA5MK2TYTXPrpUMB2O1jsvRnnTfa\n\
    Es4ehzAKBggqhkjOPQQDAgNIADBFAiEArbO9yD648j9xMiYPw23SuWJSq61AP6/K\n\
    TpzxMiadYZgCID+bbTXARw0832RqJfkHIOByLih6iEaqS5iyltYHuIth\n\
    -----END CERTIFICATE-----\n";

#[test]
fn what_can_not_be_used_is_refused() {
    let authority = Authority::new("authority");
    let files = Files::new("refused", &authority);
    files.put("other", &authority.issue("other", &[]));
    files.write("empty", "");
    files.write("version1.crt", VERSION_1);
    let error = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(&files);
        change(&mut settings);
        let error = Context::load(&settings).err().expect("an error").to_string();
        error.replace(files.0.to_str().unwrap(), "")
    };
    assert_eq!(error(&|settings| settings.cert_file.clear()), "No tls-cert-file configured!");
    assert_eq!(error(&|settings| settings.key_file.clear()), "No tls-key-file configured!");
    assert_eq!(
        error(&|settings| settings.key_file = files.path("other.key")),
        "Failed to load private key: /other.key: the key is not that of the certificate"
    );
    let version_1 =
        "Failed to load certificate: /version1.crt: the certificate is of X.509 version 1; 3 is needed";
    assert_eq!(error(&|settings| settings.cert_file = files.path("version1.crt")), version_1);
    assert_eq!(
        error(&|settings| {
            settings.client_cert_file = files.path("version1.crt");
            settings.client_key_file = files.path("other.key");
        }),
        version_1
    );
    assert_eq!(
        error(&|settings| settings.key_file = files.path("empty")),
        "Failed to load private key: /empty: no private key in the file"
    );
    assert_eq!(
        error(&|settings| settings.cert_file = files.path("")),
        "Failed to load certificate: /: not a regular file, or too large"
    );
    assert!(error(&|settings| settings.cert_file = files.path("none")).contains("No such file"));
    assert_eq!(
        error(&|settings| settings.ca_cert_file = files.path("empty")),
        "Failed to configure CA certificate(s) file/directory: /empty: no certificate in the file"
    );
    assert_eq!(
        error(&|settings| {
            settings.ca_cert_file.clear();
            settings.client_certificates = ClientCertificates::Required;
        }),
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster or tls-auth-clients are enabled!"
    );
    assert_eq!(
        error(&|settings| {
            settings.client_cert_file = files.path("server.crt");
            settings.client_key_file = files.path("other.key");
        })
        .split(": ")
        .next(),
        Some("Failed to load private key")
    );
}

#[test]
fn encrypted_keys_need_their_password() {
    let authority = Authority::new("authority");
    let files = Files::new("encrypted", &authority);
    let key = std::fs::read_to_string(files.path("server.key")).unwrap();
    let (_, document) = pkcs8::SecretDocument::from_pem(&key).unwrap();
    let info = pkcs8::PrivateKeyInfoRef::try_from(document.as_bytes()).unwrap();
    let parameters =
        pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(100, b"saltsalt", [7; 16]).unwrap();
    let encrypted = info.encrypt_with_params(parameters, "1234").unwrap();
    let pem = encrypted.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).unwrap();
    files.write("server.key", &format!("Bag Attributes: none\n{}", *pem));
    let load = |password: Option<&[u8]>| {
        let settings = Settings { key_file_pass: password.map(<[u8]>::to_vec), ..settings(&files) };
        Context::load(&settings).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(load(Some(b"1234")), Ok(()));
    assert!(load(Some(b"4321")).unwrap_err().ends_with("the password is wrong, or the encryption unknown"));
    assert!(load(None).unwrap_err().ends_with("the key is encrypted: set tls-key-file-pass"));
}

#[test]
fn files_have_a_fingerprint_and_a_summary() {
    let authority = Authority::new("authority");
    let files = Files::new("fingerprint", &authority);
    let directory = files.0.join("authorities");
    std::fs::create_dir(&directory).unwrap();
    let settings = Settings { ca_cert_dir: directory.to_str().unwrap().to_owned(), ..settings(&files) };
    let context = Context::load(&settings).unwrap();
    let summary = context.server_certificate().unwrap();
    assert!(summary.serial.len() >= 8 && summary.expires_at > 1_700_000_000);
    assert!(context.authority().is_some() && context.client_certificate().is_none());
    let before = Context::fingerprint(&settings);
    assert_eq!(before, Context::fingerprint(&settings));
    files.write("authorities/other.pem", &Authority::new("other").pem());
    let between = Context::fingerprint(&settings);
    assert_ne!(before, between);
    files.put("server", &authority.issue("server", &[]));
    assert_ne!(between, Context::fingerprint(&settings));
}

/// Connects a stream to a server with another one, in pieces. Returns the client's and the server's stream.
fn connect(
    client: &Context,
    server: &Context,
    piece_size: usize,
) -> (Result<Stream, String>, Result<Stream, String>) {
    let mut streams = [Stream::to_server(client).unwrap(), Stream::new(server).unwrap()];
    let mut results = [Ok(()), Ok(())];
    let mut passing = Vec::new();
    results[0] = streams[0]
        .receive(&mut [], &mut Vec::new(), &mut passing)
        .map(|_| ())
        .map_err(|error| error.to_string());
    let mut to = 1;
    while !passing.is_empty() {
        let mut out = Vec::new();
        for piece in passing.chunks(piece_size) {
            if results[to].is_ok() {
                let received = streams[to].receive(&mut piece.to_vec(), &mut Vec::new(), &mut out);
                results[to] = received.map(|_| ()).map_err(|error| error.to_string());
            }
        }
        passing = out;
        to = 1 - to;
    }
    let [client, server] = streams;
    let [client_result, server_result] = results;
    (client_result.map(|()| client), server_result.map(|()| server))
}

#[test]
fn a_stream_connects_to_a_server() {
    let authority = Authority::new("authority");
    let files = Files::new("to-server", &authority);
    for protocols in ["TLSv1.2", "TLSv1.3"] {
        let wanted = ClientCertificates::Required;
        let settings =
            Settings { client_certificates: wanted, protocols: protocols.to_owned(), ..settings(&files) };
        let context = Context::load(&settings).unwrap();
        for piece_size in [1, 100, 1 << 20] {
            let (client, server) = connect(&context, &context, piece_size);
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            assert!(!client.is_handshaking() && !server.is_handshaking());
            assert_eq!(server.peer_identity().unwrap().common_name.as_deref(), Some(&b"server"[..]));
            let text = b"0123456789".repeat(10_000);
            for from_client in [true, false] {
                let (from, to) =
                    if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
                from.queue(text.clone());
                let (mut received, mut scratch) = (Vec::new(), Vec::new());
                while from.queued_size() > 0 {
                    let mut out = Vec::new();
                    from.encrypt_queued(20_000, &mut scratch, &mut out).unwrap();
                    for piece in out.chunks(piece_size) {
                        to.receive(&mut piece.to_vec(), &mut received, &mut Vec::new()).unwrap();
                    }
                }
                assert!(received == text);
            }
        }
    }
    // The certificate for such connections is another one.
    files.put("client", &authority.issue("client", &[]));
    let with_own = Settings {
        client_cert_file: files.path("client.crt"),
        client_key_file: files.path("client.key"),
        client_certificates: ClientCertificates::Optional,
        ..settings(&files)
    };
    let context = Context::load(&with_own).unwrap();
    let identity = connect(&context, &context, 4096).1.unwrap().peer_identity().unwrap();
    assert_eq!(identity.common_name.as_deref(), Some(&b"client"[..]));
}

#[test]
fn servers_of_other_authorities_are_refused() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let (files, others) = (Files::new("own", &authority), Files::new("others", &other));
    let own = Context::load(&settings(&files)).unwrap();
    let foreign = Context::load(&settings(&others)).unwrap();
    let error = connect(&own, &foreign, 4096).0.err().unwrap();
    assert!(error.starts_with("invalid peer certificate"), "{error}");
    // Without authorities nothing can be checked.
    let unchecked = Settings { ca_cert_file: String::new(), ..settings(&files) };
    let context = Context::load(&unchecked).unwrap();
    assert!(Stream::to_server(&context).is_err());
    let opens = Settings { opens_connections: true, ..unchecked };
    assert!(matches!(Context::load(&opens), Err(LoadError::NoAuthorities)));
    // A directory without any.
    let empty = files.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let refused = Context::load(&Settings { ca_cert_dir: empty, ..opens });
    assert!(matches!(refused, Err(LoadError::Authorities { .. })));
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_not_that_of_an_authority() {
    for (is_ca, expected) in
        [(IsCa::ExplicitNoCa, None), (IsCa::Ca(BasicConstraints::Unconstrained), Some("CaUsed"))]
    {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let files = Files::new("self-signed", &Authority::new("unused"));
        files.write("ca.crt", &certificate);
        files.put("server", &Issued { certificate, key: key.serialize_pem() });
        let context = Context::load(&settings(&files)).unwrap();
        let error = connect(&context, &context, 4096).0.err();
        assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
        assert!(expected.is_none_or(|text| error.unwrap().contains(text)));
    }
}

#[test]
fn mutated_answers_of_servers_never_panic() {
    let authority = Authority::new("authority");
    let files = Files::new("mutated-server", &authority);
    let context = Context::load(&settings(&files)).unwrap();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..300 {
        let (mut client, mut server) = (Stream::to_server(&context).unwrap(), Stream::new(&context).unwrap());
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        client.receive(&mut [], &mut Vec::new(), &mut hello).unwrap();
        server.receive(&mut hello, &mut Vec::new(), &mut answer).unwrap();
        for _ in 0..=random(4) {
            let (place, value) = (random(answer.len()), random(256) as u8);
            answer[place] = value;
        }
        answer.truncate(answer.len() - random(answer.len()));
        let size = 1 + random(500);
        for piece in answer.chunks(size) {
            if client.receive(&mut piece.to_vec(), &mut Vec::new(), &mut Vec::new()).is_err() {
                break;
            }
        }
    }
}
