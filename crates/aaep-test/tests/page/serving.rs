//! How the page is served: its headers, its caching, and whether it is served at all.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use aaep_server::{Config, RunningServer, Server};
use aaep_test::{Serving, aaep, until};
use hyper::header::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start(page: bool) -> RunningServer {
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), page, ..Config::default() };
    config.transports.unix = false;
    let producer = Server::producer(&config);
    Server::new(config, producer).start().await.unwrap()
}

/// Sends a request without a body. Returns the status, the headers in small letters, and the body.
async fn request(server: &RunningServer, method: &str, path: &str, header: &str) -> (u16, HeaderMap, Vec<u8>) {
    request_at(server.address(), method, path, header).await
}

async fn request_at(address: SocketAddr, method: &str, path: &str, header: &str) -> (u16, HeaderMap, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{header}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields = lines.filter_map(|line| line.split_once(": "));
    let headers = fields.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    (status, headers, answer[end + 4..].to_vec())
}

#[tokio::test]
async fn files_have_their_type_and_strict_headers() {
    let server = start(true).await;
    let types = [
        ("/", "text/html; charset=utf-8"),
        ("/page/app.js", "text/javascript; charset=utf-8"),
        ("/page/client/client.js", "text/javascript; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/page/settings.json", "application/json"),
        ("/page/schemas.json", "application/json"),
    ];
    for (path, kind) in types {
        let (status, headers, body) = request(&server, "GET", path, "").await;
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, kind), "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("require-trusted-types-for 'script'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        let etag = headers["etag"].to_str().unwrap().to_owned();
        let known = request(&server, "GET", path, &format!("if-none-match: {etag}\r\n")).await;
        assert_eq!((known.0, known.2.len()), (304, 0), "{path}");
        assert!(known.1.contains_key("content-security-policy"));
        let (status, head, nothing) = request(&server, "HEAD", path, "").await;
        assert_eq!((status, nothing.len()), (200, 0), "{path}");
        assert_eq!(head["content-length"].to_str().unwrap(), body.len().to_string());
    }
    let (status, headers, _) = request(&server, "POST", "/", "content-length: 0\r\n").await;
    assert_eq!((status, headers["allow"].to_str().unwrap()), (405, "GET, HEAD"));
    assert_eq!(request(&server, "GET", "/page/nothing.js", "").await.0, 404);
    assert_eq!(request(&server, "GET", "/page/../app.js", "").await.0, 404);
    assert_eq!(request(&server, "GET", "/demo/scenes", "").await.0, 404, "only the demo has scenes");
    let (status, ..) = request(&server, "GET", "/", "origin: https://evil.example\r\n").await;
    assert_eq!(status, 403, "the checks of the host and the origin apply");
}

#[tokio::test]
async fn page_can_be_switched_off() {
    let server = start(false).await;
    for path in ["/", "/page/app.js", "/page/settings.json"] {
        assert_eq!(request(&server, "GET", path, "").await.0, 404, "{path}");
    }
    assert_eq!(request(&server, "GET", "/healthz", "").await.0, 200);
}

/// The command opens the page in the browser of the user, here a script that notes the address.
#[tokio::test]
async fn demo_opens_the_page_and_lists_its_scenes() {
    let directory = tempfile::tempdir().unwrap();
    let (browser, opened) = (directory.path().join("xdg-open"), directory.path().join("opened"));
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display())).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(aaep());
    command.args(["demo", "--no-input", "--on-request", "--no-unix", "--open", "--listen", "127.0.0.1:0"]);
    let demo = Serving::spawn(command.env("PATH", path));
    until("the browser", async || std::fs::read_to_string(&opened).is_ok_and(|text| text.ends_with('\n'))).await;
    assert_eq!(std::fs::read_to_string(&opened).unwrap().trim(), demo.url(""));
    let (status, _, body) = request_at(demo.address(), "GET", "/demo/scenes", "").await;
    let scenes: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &scenes["scenes"][0]["name"]), (200, &"banking".into()));
    let none = "content-length: 0\r\n";
    assert_eq!(request_at(demo.address(), "POST", "/demo/scenes/nothing", none).await.0, 404);
    let foreign = "content-length: 0\r\norigin: https://evil.example\r\n";
    assert_eq!(request_at(demo.address(), "POST", "/demo/scenes/banking", foreign).await.0, 403);
    assert_eq!(request_at(demo.address(), "POST", "/demo/scenes/banking", none).await.0, 202);
}

#[tokio::test]
async fn flag_switches_the_page_off() {
    let demo = Serving::start(&["demo", "--no-input", "--no-unix", "--no-page"]);
    assert_eq!(request_at(demo.address(), "GET", "/", "").await.0, 404);
    assert_eq!(request_at(demo.address(), "GET", "/demo/scenes", "").await.0, 404);
}
