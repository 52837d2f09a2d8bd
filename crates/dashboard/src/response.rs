//! Requests and their replies.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::access::has_password;
use crate::{MetricsFormat, Source};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const INDEX: &str = "\
<!DOCTYPE html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>Broadloom</title></head>
<body>
<h1>Broadloom</h1>
<ul>
<li><a href=\"/metrics\">/metrics</a>: all figures for Prometheus</li>
<li><a href=\"/api/figures\">/api/figures</a>: all figures as JSON</li>
<li><a href=\"/healthz\">/healthz</a>: whether the process runs</li>
<li><a href=\"/readyz\">/readyz</a>: whether the server can serve its data</li>
</ul>
</body>
</html>
";

/// The reply to a request. The body of a request is not read.
pub fn respond(
    request: &Request<Incoming>,
    source: &dyn Source,
) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(reply(request.method(), request.uri().path(), request.headers(), source))
}

fn reply(method: &Method, path: &str, headers: &HeaderMap, source: &dyn Source) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut refusal =
            text(StatusCode::METHOD_NOT_ALLOWED, "The admin port has GET and HEAD.\n".to_owned());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match path {
        // Probes have no password.
        "/healthz" => return text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => return readiness(&source.obstacles()),
        _ => {}
    }
    if let Some(password) = source.password()
        && !has_password(headers, &password)
    {
        let mut refusal =
            text(StatusCode::UNAUTHORIZED, "The password of admin-password is required.\n".to_owned());
        let scheme = HeaderValue::from_static("Basic realm=\"Broadloom\", charset=\"UTF-8\"");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return refusal;
    }
    match path {
        "/" => of_type(StatusCode::OK, HTML, INDEX.to_owned()),
        "/metrics" => match accepted_format(headers) {
            format @ MetricsFormat::Prometheus => of_type(StatusCode::OK, PROMETHEUS, source.metrics(format)),
            format @ MetricsFormat::OpenMetrics => {
                of_type(StatusCode::OK, OPEN_METRICS, source.metrics(format))
            }
        },
        "/api/figures" => of_type(StatusCode::OK, JSON, source.figures()),
        _ => text(StatusCode::NOT_FOUND, "There is no such page. / lists them.\n".to_owned()),
    }
}

fn readiness(obstacles: &[String]) -> Response<Full<Bytes>> {
    match obstacles {
        [] => text(StatusCode::OK, "ready\n".to_owned()),
        obstacles => {
            let lines = obstacles.iter().map(|obstacle| format!("{obstacle}\n")).collect();
            text(StatusCode::SERVICE_UNAVAILABLE, lines)
        }
    }
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

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    of_type(status, TEXT, body)
}

fn of_type(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
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
    use std::sync::Arc;

    use http_body_util::BodyExt;

    use super::*;

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

        fn obstacles(&self) -> Vec<String> {
            self.obstacles.iter().map(|obstacle| (*obstacle).to_owned()).collect()
        }

        fn password(&self) -> Option<Vec<u8>> {
            self.password.map(|password| password.as_bytes().to_vec())
        }

        fn certificates(&self) -> Option<Arc<tls::Context>> {
            None
        }
    }

    const OPEN: Fixed = Fixed { obstacles: &[], password: None };

    fn body_of(response: Response<Full<Bytes>>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let bytes = runtime.block_on(response.into_body().collect()).expect("a whole body").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }

    fn get(path: &str, headers: &[(&'static str, &'static str)], source: &Fixed) -> (u16, String) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let response = reply(&Method::GET, path, &map, source);
        (response.status().as_u16(), body_of(response))
    }

    #[test]
    fn pages() {
        assert_eq!(get("/healthz", &[], &OPEN), (200, "ok\n".to_owned()));
        assert_eq!(get("/readyz", &[], &OPEN), (200, "ready\n".to_owned()));
        assert_eq!(get("/api/figures", &[], &OPEN), (200, "{}".to_owned()));
        assert_eq!(get("/", &[], &OPEN).0, 200);
        assert_eq!(get("/metric", &[], &OPEN).0, 404);
        assert_eq!(reply(&Method::POST, "/healthz", &HeaderMap::new(), &OPEN).status(), 405);
        let failing = Fixed { obstacles: &["loading", "no disk"], password: None };
        assert_eq!(get("/readyz", &[], &failing), (503, "loading\nno disk\n".to_owned()));
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
        let locked = Fixed { obstacles: &[], password: Some("pw") };
        // `a:pw`
        let authorization = [("authorization", "Basic YTpwdw==")];
        for path in ["/", "/metrics", "/api/figures", "/nowhere"] {
            assert_eq!(get(path, &[], &locked).0, 401, "{path}");
            assert_ne!(get(path, &authorization, &locked).0, 401, "{path}");
        }
        assert_eq!((get("/healthz", &[], &locked).0, get("/readyz", &[], &locked).0), (200, 200));
    }
}
