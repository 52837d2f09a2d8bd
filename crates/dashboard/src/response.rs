//! Requests and their replies.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};

use crate::access::has_password;
use crate::site::Site;
use crate::{EVENTS_COUNT_MAX, Encryption, MetricsFormat, Obstacle};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A file of the page, with its type.
macro_rules! page_file {
    ($name:literal, $content_type:expr) => {
        (concat!("/", $name), $content_type, include_str!(concat!("../page/", $name)))
    };
}

/// The files of the dashboard by path, with their types. `index.html` is the page itself.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../page/index.html")),
    page_file!("dashboard.css", "text/css; charset=utf-8"),
    page_file!("icon.svg", "image/svg+xml"),
    page_file!("charts.js", JAVASCRIPT),
    page_file!("dashboard.js", JAVASCRIPT),
    page_file!("elements.js", JAVASCRIPT),
    page_file!("figures.js", JAVASCRIPT),
    page_file!("formats.js", JAVASCRIPT),
    page_file!("page.js", JAVASCRIPT),
    page_file!("parts.js", JAVASCRIPT),
    page_file!("reading.js", JAVASCRIPT),
    page_file!("rows.js", JAVASCRIPT),
    page_file!("samples.js", JAVASCRIPT),
    page_file!("views.js", JAVASCRIPT),
];

const EVENTS_PATH: &str = "/api/live";

/// A reply: at once, or events as they come.
pub type Body = Either<Full<Bytes>, Channel<Bytes>>;

/// The reply to a request on a connection with these certificates. The body of a request is not read.
pub fn respond(
    request: &Request<Incoming>,
    site: &Site,
    certificates: Option<&Arc<tls::Context>>,
) -> Result<Response<Body>, Infallible> {
    let is_outdated =
        certificates.is_some_and(|own| site.source.certificates().is_none_or(|now| !Arc::ptr_eq(own, &now)));
    if is_outdated {
        // Clients may be checked otherwise now.
        let text = "The certificates have changed: connect again.\n";
        return Ok(ending(text_reply(StatusCode::MISDIRECTED_REQUEST, text)));
    }
    Ok(reply(request.method(), request.uri(), request.headers(), site))
}

fn reply(method: &Method, uri: &Uri, headers: &HeaderMap, site: &Site) -> Response<Body> {
    let (source, path) = (site.source, uri.path());
    if method != Method::GET && method != Method::HEAD {
        let mut refusal = text_reply(StatusCode::METHOD_NOT_ALLOWED, "The admin port has GET and HEAD.\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return ending(refusal);
    }
    let password = source.password();
    // A page of another host, whose name leads to this machine, could read the figures in the user's browser.
    let is_foreign =
        password.is_none() && site.encryption == Encryption::None && !is_local_name(uri, headers);
    let may_see_all = !is_foreign && password.as_ref().is_none_or(|password| has_password(headers, password));
    match path {
        // Probes have no password, and keep no place.
        "/healthz" => return ending(text_reply(StatusCode::OK, "ok\n")),
        "/readyz" => return ending(readiness(&source.obstacles(), may_see_all)),
        _ => {}
    }
    if is_foreign {
        let text = "Without admin-password, the host in the URL must be an address or localhost.\n";
        return ending(text_reply(StatusCode::FORBIDDEN, text));
    }
    if !may_see_all {
        source.note_denial();
        let mut refusal =
            text_reply(StatusCode::UNAUTHORIZED, "The password of admin-password is required.\n");
        let scheme = HeaderValue::from_static("Basic realm=\"Broadloom\", charset=\"UTF-8\"");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return ending(refusal);
    }
    match path {
        "/metrics" => match accepted_format(headers) {
            format @ MetricsFormat::Prometheus => of_type(StatusCode::OK, PROMETHEUS, source.metrics(format)),
            format @ MetricsFormat::OpenMetrics => {
                of_type(StatusCode::OK, OPEN_METRICS, source.metrics(format))
            }
        },
        "/api/figures" => of_type(StatusCode::OK, JSON, source.figures()),
        "/api/history" => of_type(StatusCode::OK, JSON, site.history()),
        // The reply to HEAD has no body, and would never end.
        EVENTS_PATH if method == Method::HEAD => of_type(StatusCode::OK, EVENTS, String::new()),
        EVENTS_PATH if site.receiver_count() >= EVENTS_COUNT_MAX => {
            ending(text_reply(StatusCode::SERVICE_UNAVAILABLE, "Too many connections receive events.\n"))
        }
        EVENTS_PATH => with_headers(StatusCode::OK, EVENTS, Either::Right(live(site))),
        path if let Some((_, content_type, text)) = FILES.iter().find(|(of, ..)| *of == path) => {
            of_type(StatusCode::OK, content_type, Bytes::from_static(text.as_bytes()))
        }
        _ => ending(text_reply(StatusCode::NOT_FOUND, "There is no such page.\n")),
    }
}

/// Whether the URL names this machine by an address, or as `localhost`.
fn is_local_name(uri: &Uri, headers: &HeaderMap) -> bool {
    let in_header = || headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let Some(authority) = uri.authority().cloned().or_else(in_header) else {
        // Browsers always send it.
        return !headers.contains_key(HOST);
    };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

fn readiness(obstacles: &[Obstacle], has_details: bool) -> Response<Body> {
    if obstacles.is_empty() {
        return text_reply(StatusCode::OK, "ready\n");
    }
    let details = |obstacle: &Obstacle| if has_details { obstacle.details.clone() } else { String::new() };
    let lines = obstacles.iter().map(|obstacle| format!("{}{}\n", obstacle.text, details(obstacle)));
    text_reply(StatusCode::SERVICE_UNAVAILABLE, lines.collect::<String>())
}

/// The last reply of its connection.
fn ending(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// OpenMetrics for clients that name it, as Prometheus does.
fn accepted_format(headers: &HeaderMap) -> MetricsFormat {
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| {
            value.split(',').any(|range| {
                let media_type = range.split(';').next().unwrap_or_default();
                media_type.trim().eq_ignore_ascii_case("application/openmetrics-text")
            })
        })
    };
    if headers.get_all(ACCEPT).iter().any(accepts) {
        MetricsFormat::OpenMetrics
    } else {
        MetricsFormat::Prometheus
    }
}

fn text_reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    of_type(status, TEXT, body)
}

/// The events from now on. They end with the connection, and when the password or the certificates change.
fn live(site: &Site) -> Channel<Bytes> {
    let (mut sender, body) = Channel::new(1);
    let (mut events, source) = (site.events(), site.source);
    let (password, certificates) = (source.password(), source.certificates());
    let is_protected_as_before = move || {
        let now = source.certificates();
        source.password() == password
            && now.as_ref().map(Arc::as_ptr) == certificates.as_ref().map(Arc::as_ptr)
    };
    tokio::spawn(async move {
        while events.changed().await.is_ok() && is_protected_as_before() {
            let event = events.borrow_and_update().clone();
            if sender.send_data(event).await.is_err() {
                return;
            }
        }
    });
    body
}

fn of_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    with_headers(status, content_type, Either::Left(Full::new(body.into())))
}

fn with_headers(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'self'; frame-ancestors 'none'"),
    );
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::{Sample, Series, Source};

    struct Fixed {
        obstacles: &'static [&'static str],
        password: Option<&'static str>,
    }

    impl Source for Fixed {
        fn metrics(&self, format: MetricsFormat) -> String {
            format!("{format:?}")
        }

        fn figures(&self) -> String {
            "{}".to_owned()
        }

        fn series(&self) -> &'static [Series] {
            &[]
        }

        fn sample(&self) -> Sample {
            Sample { at_ms: 5, ..Sample::default() }
        }

        fn obstacles(&self) -> Vec<Obstacle> {
            let obstacle = |text: &&'static str| Obstacle { text, details: ": more".to_owned() };
            self.obstacles.iter().map(obstacle).collect()
        }

        fn note_denial(&self) {}

        fn note_failed_handshake(&self) {}

        fn password(&self) -> Option<Vec<u8>> {
            self.password.map(|password| password.as_bytes().to_vec())
        }

        fn certificates(&self) -> Option<Arc<tls::Context>> {
            None
        }
    }

    static OPEN: Fixed = Fixed { obstacles: &[], password: None };

    fn site(source: &'static Fixed) -> Site {
        Site::new(source, Encryption::None)
    }

    fn body_of(response: Response<Body>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let bytes = runtime.block_on(response.into_body().collect()).expect("a whole body").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URI")
    }

    fn get(path: &str, headers: &[(&'static str, &'static str)], source: &'static Fixed) -> (u16, String) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let response = reply(&Method::GET, &uri(path), &map, &site(source));
        (response.status().as_u16(), body_of(response))
    }

    #[test]
    fn pages() {
        assert_eq!(get("/healthz", &[], &OPEN), (200, "ok\n".to_owned()));
        assert_eq!(get("/readyz", &[], &OPEN), (200, "ready\n".to_owned()));
        assert_eq!(get("/api/figures", &[], &OPEN), (200, "{}".to_owned()));
        assert_eq!(get("/api/history", &[], &OPEN).0, 200);
        for (path, content_type, text) in FILES {
            let response = reply(&Method::GET, &uri(path), &HeaderMap::new(), &site(&OPEN));
            assert_eq!(response.headers()[CONTENT_TYPE], *content_type, "{path}");
            assert!(body_of(response) == *text, "{path}");
        }
        assert_eq!(get("/metric", &[], &OPEN).0, 404);
        assert_eq!(reply(&Method::POST, &uri("/healthz"), &HeaderMap::new(), &site(&OPEN)).status(), 405);
        static FAILING: Fixed = Fixed { obstacles: &["loading", "no disk"], password: None };
        assert_eq!(get("/readyz", &[], &FAILING), (503, "loading: more\nno disk: more\n".to_owned()));
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let directory = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).expect("the page");
        for file in directory {
            let name = file.expect("a file").file_name().into_string().expect("UTF-8");
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert_eq!(get(&path, &[], &OPEN).0, 200, "{path}");
        }
    }

    #[test]
    fn events_follow_samples() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let site = Arc::new(site(&OPEN));
            let response = reply(&Method::GET, &uri(EVENTS_PATH), &HeaderMap::new(), &site);
            assert_eq!(response.headers()[CONTENT_TYPE], EVENTS);
            tokio::spawn(Arc::clone(&site).record());
            let mut body = response.into_body();
            let frame = body.frame().await.expect("an event").expect("no error");
            assert_eq!(frame.into_data().ok(), Some(Bytes::from_static(b"data: [5,[],[]]\n\n")));
        });
    }

    #[test]
    fn the_format_of_metrics_is_that_which_the_client_accepts() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in
            [("*/*", "Prometheus"), ("text/html", "Prometheus"), (prometheus, "OpenMetrics")]
        {
            assert_eq!(get("/metrics", &[("accept", accept)], &OPEN), (200, format.to_owned()));
        }
        assert_eq!(get("/metrics", &[], &OPEN).1, "Prometheus");
    }

    #[test]
    fn a_password_protects_all_but_the_states() {
        static LOCKED: Fixed = Fixed { obstacles: &[], password: Some("pw") };
        // `a:pw`
        let authorization = [("authorization", "Basic YTpwdw==")];
        for path in ["/", "/dashboard.js", "/metrics", "/api/figures", "/api/history", "/nowhere"] {
            assert_eq!(get(path, &[], &LOCKED).0, 401, "{path}");
            assert_ne!(get(path, &authorization, &LOCKED).0, 401, "{path}");
        }
        assert_eq!((get("/healthz", &[], &LOCKED).0, get("/readyz", &[], &LOCKED).0), (200, 200));
        static FAILING: Fixed = Fixed { obstacles: &["no disk"], password: Some("pw") };
        assert_eq!(get("/readyz", &[], &FAILING), (503, "no disk\n".to_owned()));
        assert_eq!(get("/readyz", &authorization, &FAILING), (503, "no disk: more\n".to_owned()));
    }

    #[test]
    fn without_a_password_the_host_is_no_foreign_name() {
        static LOCKED: Fixed = Fixed { obstacles: &[], password: Some("pw") };
        for (host, status) in [
            ("127.0.0.1:9121", 200),
            ("[::1]:9121", 200),
            ("localhost", 200),
            ("LocalHost:80", 200),
            ("evil.example:9121", 403),
            ("127.0.0.1.evil.example", 403),
            ("", 403),
        ] {
            assert_eq!(get("/metrics", &[("host", host)], &OPEN).0, status, "{host}");
            assert_eq!(get("/metrics", &[("host", host)], &LOCKED).0, 401, "{host}");
            assert_eq!(get("/healthz", &[("host", host)], &OPEN).0, 200, "{host}");
        }
        static FAILING: Fixed = Fixed { obstacles: &["no disk"], password: None };
        assert_eq!(get("/readyz", &[("host", "evil.example")], &FAILING), (503, "no disk\n".to_owned()));
        assert_eq!(get("http://evil.example/metrics", &[("host", "localhost")], &OPEN).0, 403);
    }
}
