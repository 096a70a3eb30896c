//! The web page at `/`: a subscriber that runs in the browser.
//!
//! Its files are part of the program, so it works without a network beyond this server. Nothing in it needs credentials:
//! the page asks the user for a token and sends it with its requests.

mod files;
mod scenes;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde_json::{Map, Value, json};

use crate::http::HttpProblem;
use files::{FILES, PageFile};

pub use scenes::Scenes;

/// What a page of this server may do: load its own scripts and styles and talk to its own server. No inline script, no
/// frames, no HTML from text.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
require-trusted-types-for 'script'; trusted-types 'none'";

/// What the page must know before it connects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageSettings {
    /// Whether the server requires credentials.
    pub(crate) needs_token: bool,
    /// Whether scenes of the demo can be started.
    pub(crate) has_scenes: bool,
}

/// Returns the router of the page and its files.
pub(crate) fn router(settings: PageSettings) -> Router {
    let settings = json!({"needs_token": settings.needs_token, "has_scenes": settings.has_scenes,
        "version": env!("CARGO_PKG_VERSION")});
    let events = aaep_proto::schema::all().into_iter().filter(|file| file.path.starts_with("core/"));
    let schemas: Map<String, Value> = events.map(|file| (format!("aaep:{}", file.name), file.schema())).collect();
    let generated = [("/page/settings.json", settings), ("/page/schemas.json", schemas.into())];
    let generated =
        generated.map(|(path, value)| (path, ServedFile::new("application/json", value.to_string().into_bytes())));
    let embedded =
        FILES.iter().map(|file: &PageFile| (file.path, ServedFile::new(file.media_type(), file.bytes.to_vec())));
    let mut router = Router::new();
    for (path, file) in embedded.chain(generated) {
        let file = Arc::new(file);
        let get = async move |method: Method, headers: HeaderMap| file.respond(&method, &headers);
        let not_allowed = async || HttpProblem::not_allowed("GET, HEAD");
        router = router.route(path, on(MethodFilter::GET.or(MethodFilter::HEAD), get).fallback(not_allowed));
    }
    router
}

/// A file with the headers it is served with.
#[derive(Debug)]
struct ServedFile {
    media_type: &'static str,
    bytes: bytes::Bytes,
    /// Names the content, so that a browser need not load it again.
    etag: HeaderValue,
}

impl ServedFile {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> ServedFile {
        let etag = format!("\"{:016x}-{:x}\"", fnv(&bytes), bytes.len());
        let etag = HeaderValue::from_str(&etag).expect("it consists of quotes, hexadecimal digits and a dash");
        ServedFile { media_type, bytes: bytes.into(), etag }
    }

    fn respond(&self, method: &Method, headers: &HeaderMap) -> Response {
        let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|tags| {
            tags.to_str().is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == self.etag))
        });
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else if *method == Method::HEAD {
            ([(header::CONTENT_LENGTH, self.bytes.len())], Body::empty()).into_response()
        } else {
            Body::from(self.bytes.clone()).into_response()
        };
        let fixed = HeaderValue::from_static;
        let fields = [
            (header::CONTENT_TYPE, fixed(self.media_type)),
            (header::ETAG, self.etag.clone()),
            // A browser asks each time whether its copy is current: a new version of the server has a new page at once.
            (header::CACHE_CONTROL, fixed("no-cache")),
            (header::CONTENT_SECURITY_POLICY, fixed(CONTENT_SECURITY_POLICY)),
            (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
            (header::REFERRER_POLICY, fixed("no-referrer")),
            (header::HeaderName::from_static("cross-origin-opener-policy"), fixed("same-origin")),
            (header::HeaderName::from_static("cross-origin-resource-policy"), fixed("same-origin")),
        ];
        response.headers_mut().extend(fields);
        response
    }
}

/// The FNV-1a hash of a text. It tells versions of a file apart; it protects nothing.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_content_is_not_sent_again() {
        let file = ServedFile::new("text/css", b"p {}".to_vec());
        let etag = file.etag.to_str().unwrap().to_owned();
        let status = |known: &str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap())]);
            file.respond(&Method::GET, &headers).status()
        };
        assert_eq!(status(&etag), 304);
        assert_eq!(status(&format!("\"other\", W/{etag}")), 304);
        assert_eq!(status("\"other\""), 200);
        assert_ne!(ServedFile::new("text/css", b"q {}".to_vec()).etag, file.etag);
    }

    #[test]
    fn scripts_and_styles_are_files_of_their_own() {
        for directive in CONTENT_SECURITY_POLICY.split("; ") {
            assert!(!directive.contains("unsafe") && !directive.contains('*'), "{directive}");
        }
        for file in FILES.iter().filter(|file| file.media_type().starts_with("text/html")) {
            let html = std::str::from_utf8(file.bytes).unwrap();
            assert!(
                !html.contains("<script>") && !html.contains("<style") && !html.contains(" style="),
                "{}",
                file.path
            );
        }
    }
}
