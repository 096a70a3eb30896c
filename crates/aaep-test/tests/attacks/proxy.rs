//! Clients that pretend to be a proxy, or to be someone else behind one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use aaep_test::{Process, Serving, aaep, soon, until};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// The trusted proxy.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Another process of this machine.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

const TOKEN: &str = "ada-secret-ada-secret-ada-secret";
const HOST: &str = "host: agents.example";
const HTTPS: &str = "x-forwarded-proto: https";

struct ProxiedServer {
    server: Serving,
    _files: TempDir,
}

/// Writes a file of tokens and returns the arguments of a server behind [`PROXY`].
fn arguments(files: &TempDir) -> Vec<String> {
    let tokens = files.path().join("tokens");
    fs::write(&tokens, format!("{TOKEN} ada subscribe,reply,admin\n")).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let tokens = tokens.to_str().unwrap();
    let arguments =
        ["serve", "--no-unix", "--behind-proxy", "127.0.0.2", "--host", "agents.example", "--tokens", tokens];
    arguments.map(str::to_owned).to_vec()
}

impl ProxiedServer {
    fn start(listen: &str) -> ProxiedServer {
        let files = tempfile::tempdir().unwrap();
        let server = Serving::spawn(Command::new(aaep()).args(arguments(&files)).args(["--listen", listen]));
        ProxiedServer { server, _files: files }
    }

    /// Sends a request from a local address and returns the response.
    async fn call(&self, from: impl Into<IpAddr>, path: &str, headers: &[&str]) -> String {
        let from = from.into();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        let port = self.server.address().port();
        let to = if from.is_loopback() { IpAddr::from([127, 0, 0, 1]) } else { from };
        let mut stream = soon("a connection", socket.connect(SocketAddr::new(to, port))).await.unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        soon("a response", stream.read_to_string(&mut response)).await.unwrap();
        response
    }

    /// Waits until the log has this text.
    async fn wait_for_log(&mut self, text: &str) {
        until(text, async || self.server.process.errors().contains(text)).await;
    }
}

fn status(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{response:?}"))
}

#[tokio::test]
async fn forwarding_headers_count_only_from_the_proxy() {
    let mut test = ProxiedServer::start("127.0.0.1:0");
    let wrong = "authorization: Bearer wrong";
    let claims = [HOST, HTTPS, wrong, "x-forwarded-for: 198.51.100.7, 203.0.113.9"];
    assert_eq!(status(&test.call(PROXY, "/metrics", &claims).await), 401);
    test.wait_for_log("client=Some(203.0.113.9)").await;
    let claims = [HOST, HTTPS, wrong, "x-forwarded-for: 203.0.113.66", "forwarded: for=203.0.113.66;proto=https"];
    assert_eq!(status(&test.call(OTHER, "/metrics", &claims).await), 401);
    test.wait_for_log("client=Some(127.0.0.3)").await;
    let log = test.server.process.errors();
    assert!(!log.contains("203.0.113.66") && !log.contains("198.51.100.7"), "{log}");
    // A host that only a header of a stranger names.
    let claims = ["host: evil.example", "x-forwarded-host: agents.example", "forwarded: host=agents.example"];
    assert_eq!(status(&test.call(OTHER, "/metrics", &claims).await), 421);
    let claims = ["host: upstream", "x-forwarded-host: agents.example", HTTPS, "x-forwarded-for: 203.0.113.9"];
    assert_eq!(status(&test.call(PROXY, "/metrics", &claims).await), 401, "the proxy may name the host");
}

#[tokio::test]
async fn requests_through_the_proxy_need_credentials_and_https() {
    let test = ProxiedServer::start("127.0.0.1:0");
    let token = format!("authorization: Bearer {TOKEN}");
    let token = token.as_str();
    let client = "x-forwarded-for: 203.0.113.9";
    for (expected, headers) in [
        (200, vec![client, HTTPS, token]),
        (200, vec!["forwarded: for=\"[2001:db8::9]:443\";proto=https", token]),
        (401, vec![client, HTTPS]),
        (401, vec!["x-forwarded-for: 127.0.0.1", HTTPS]),
        (403, vec![client, "x-forwarded-proto: http", token]),
        (403, vec!["forwarded: for=203.0.113.9;proto=http", token]),
        // A proxy that does not say who the client is, or passes on what the client says.
        (400, vec![token]),
        (400, vec![client, token]),
        (400, vec![HTTPS, token]),
        (400, vec!["x-forwarded-for: unknown", HTTPS, token]),
        (400, vec!["forwarded: for=203.0.113.9;proto=https, for=\"", token]),
        (400, vec![client, HTTPS, "forwarded: for=198.51.100.7", token]),
    ] {
        let headers: Vec<&str> = [HOST].into_iter().chain(headers).collect();
        let response = test.call(PROXY, "/metrics", &headers).await;
        assert_eq!(status(&response), expected, "{headers:?}: {response}");
    }
}

#[tokio::test]
async fn probes_need_no_host_and_no_proxy() {
    let test = ProxiedServer::start("127.0.0.1:0");
    for from in [PROXY, OTHER] {
        for path in ["/healthz", "/readyz"] {
            for headers in [&["host: 10.1.2.3:8377"][..], &["host: evil.example"], &[]] {
                assert_eq!(status(&test.call(from, path, headers).await), 200, "{from} {path} {headers:?}");
            }
        }
    }
    assert_eq!(status(&test.call(OTHER, "/healthz/../metrics", &["host: evil.example"]).await), 421);
    let page = ["host: evil.example", "origin: http://evil.example"];
    assert!(!test.call(OTHER, "/readyz", &page).await.contains("access-control-allow-origin: http://evil.example"));
}

/// The address of this machine in its network, if it has one.
fn outer_address() -> Option<IpAddr> {
    // Nothing is sent: this only chooses a route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| ip.is_ipv4() && !ip.is_loopback())
}

#[tokio::test]
async fn other_machines_cannot_go_past_the_proxy() {
    let Some(outer) = outer_address() else {
        eprintln!("not tried: this machine has no address besides loopback");
        return;
    };
    let test = ProxiedServer::start("0.0.0.0:0");
    let token = format!("authorization: Bearer {TOKEN}");
    let claims = [HOST, HTTPS, "x-forwarded-for: 127.0.0.1", &token];
    let response = test.call(outer, "/metrics", &claims).await;
    assert_eq!(status(&response), 403, "{response}");
    assert!(response.contains("Only the proxy may connect here"), "{response}");
    assert_eq!(status(&test.call(outer, "/readyz", &["host: 10.1.2.3"]).await), 200, "probes may");
}

fn refusal(arguments: &[String]) -> String {
    let mut process = Process::start(Command::new(aaep()).args(arguments));
    assert_eq!(process.wait().code(), Some(2), "{arguments:?}");
    process.errors()
}

#[test]
fn server_behind_a_proxy_does_not_start_without_tokens_or_with_a_network_of_everyone() {
    let files = tempfile::tempdir().unwrap();
    let complete = arguments(&files);
    let without = |flag: &str| {
        let at = complete.iter().position(|argument| argument == flag).unwrap();
        [&complete[..at], &complete[at + 2..]].concat()
    };
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let listen = ["--listen".to_owned(), listen.to_owned()];
        let error = refusal(&[&without("--tokens")[..], &listen].concat());
        assert!(error.contains("--tokens"), "{error}");
        let error = refusal(&[&without("--host")[..], &listen].concat());
        assert!(error.contains("--host"), "{error}");
    }
    let error = refusal(&[&without("--behind-proxy")[..], &["--listen".to_owned(), "0.0.0.0:0".to_owned()]].concat());
    assert!(error.contains("certificate"), "{error}");
    let everyone = complete.iter().map(|argument| if argument == "127.0.0.2" { "0.0.0.0/0" } else { argument });
    let error = refusal(&everyone.map(str::to_owned).collect::<Vec<_>>());
    assert!(error.contains("is not the address or network of a proxy"), "{error}");
}
