//! The benchmark as a process, over TLS, against a fake server in the test.
#![allow(clippy::unwrap_used)]

#[path = "../../tls/tests/support/mod.rs"]
mod certificates;
mod support;

use std::process::Output;
use std::sync::Arc;

use certificates::{Authority, Files, Issued};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use support::{Behaviour, FakeServer, command, report, samples};

/// A fake server with TLS. Its certificate has the name `localhost` only, and the benchmark connects to 127.0.0.1.
fn start(authority: &Authority, needs_client_certificate: bool) -> FakeServer {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if needs_client_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let Issued { certificate, key } = authority.issue("server", &[]);
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let tls = builder.with_single_cert(vec![certificate], key).unwrap();
    FakeServer::start(Behaviour { tls: Some(Arc::new(tls)), ..Behaviour::default() })
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn requests_are_counted_as_without_tls() {
    let authority = Authority::new("authority");
    let files = Files::new("bench-requests", &authority);
    let cacert = files.path("ca.crt");
    // A batch of the last case exceeds every buffer of the client.
    let cases: [(&[&str], &str, &str); 3] = [
        (&["--cacert", &cacert], "64", "16"),
        (&["--insecure"], "64", "1"),
        (&["--cacert", &cacert], "40000", "20"),
    ];
    for (trust, value_size, pipeline) in cases {
        let server = start(&authority, false);
        let spec = format!("fake={}", server.address);
        let args = ["--tls", "--server", &spec, "--keys", "100", "--requests", "400", "--connections", "3"];
        let more = ["--rounds", "1", "--threads", "2", "--value-size", value_size, "--pipeline", pipeline];
        let (output, report) = report(&[&args[..], &more, &["--warmup", "0"], trust].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!((server.command_count("SET"), server.command_count("GET")), (100, 400));
        let sample = &samples(&report, "fake")[0];
        assert_eq!((&sample["request_count"], &sample["null_count"]), (&400.into(), &0.into()));
        let origin = report["servers"][0]["origin"].as_str().unwrap();
        assert!(origin.ends_with(" with TLS"), "{origin}");
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let files = Files::new("bench-untrusted", &Authority::new("another"));
    let server = start(&Authority::new("authority"), false);
    let spec = format!("fake={}", server.address);
    let args = ["--tls", "--cacert", &files.path("ca.crt"), "--server", &spec];
    let output = command(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("server fake") && error.contains("certificate"), "{error}");
}

#[test]
fn clients_can_have_a_certificate() {
    let authority = Authority::new("authority");
    let files = Files::new("bench-clients", &authority);
    files.put("client", &authority.issue("client", &[]));
    let server = start(&authority, true);
    let spec = format!("fake={}", server.address);
    let cacert = files.path("ca.crt");
    let args = ["--tls", "--cacert", &cacert, "--server", &spec, "--workload", "ping", "--requests", "50"];
    let args = [&args[..], &["--rounds", "1", "--warmup", "0", "--no-progress"]].concat();
    let output = command(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "no certificate");
    assert_eq!(server.command_count("PING"), 0);

    let (certificate, key) = (files.path("client.crt"), files.path("client.key"));
    let output = command(&args).args(["--cert", &certificate, "--key", &key]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(server.command_count("PING"), 50 + 1, "and one that waits for the server");
}

#[test]
fn unusable_options_are_refused_before_anything_starts() {
    let authority = Authority::new("authority");
    let files = Files::new("bench-options", &authority);
    let (cacert, key) = (files.path("ca.crt"), files.path("server.key"));
    let cases: [(&[&str], &str); 10] = [
        (&["--tls"], "--tls needs --cacert FILE"),
        (&["--cacert", &cacert], "--tls"),
        (&["--insecure"], "--tls"),
        (&["--tls", "--insecure", "--cacert", &cacert], "cannot be used with"),
        (&["--tls", "--insecure", "--cert", &cacert], "--key"),
        (&["--tls", "--insecure", "--key", &key], "--cert"),
        (&["--tls", "--cacert", "missing.crt"], "--cacert: 'missing.crt'"),
        (&["--tls", "--cacert", &key], "no certificate in"),
        (&["--tls", "--insecure", "--cert", &cacert, "--key", &key], "--cert, --key:"),
        (&["--tls", "--server", "echo"], "echo can't be started with --tls"),
    ];
    for (args, reason) in cases {
        let output = command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
    }
    let without = command(&["--server", "x=/bin/true {port} {cert}"]).output().unwrap();
    assert!(stderr(&without).contains("which need --tls"), "{}", stderr(&without));
}
