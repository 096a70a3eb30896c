//! nginx with the configuration of `deploy/nginx` in front of `aaep serve --behind-proxy`: events, replies and WebSockets
//! through TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aaep_test::{Process, Serving, aaep, now, root, soon, until};
use futures_util::{SinkExt, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Message;

use crate::{TOKEN, free_port, run, wait_until, write_tokens};

const HOST: &str = "agents.example";

struct Site {
    server: Serving,
    nginx: Process,
    port: u16,
    files: TempDir,
}

/// Writes a certificate for [`HOST`], its key, and the certificate of its authority.
fn write_certificates(directory: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    // Not the default name: that of the certificate would be the same, as if it were self-signed.
    params.distinguished_name.push(DnType::CommonName, "test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
    fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
}

/// Writes a configuration around that of `deploy/nginx`, with the names replaced as the nginx image does.
fn write_nginx_configuration(directory: &Path, upstream: &str, port: u16) -> PathBuf {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let mut site = fs::read_to_string(root().join("deploy/nginx/aaep.conf.template")).unwrap();
    for (name, value) in [
        ("AAEP_HOST", HOST.to_owned()),
        ("AAEP_LISTEN", format!("127.0.0.1:{port}")),
        ("AAEP_UPSTREAM", upstream.to_owned()),
        ("AAEP_TLS_CERT", path("cert.pem")),
        ("AAEP_TLS_KEY", path("key.pem")),
    ] {
        site = site.replace(&format!("${{{name}}}"), &value);
    }
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {};\n", path(name)))
        .concat();
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let whole = format!(
        "{user}daemon off;\nworker_processes 1;\npid {};\nerror_log stderr;\nevents {{}}\nhttp {{\n{temporary}{site}}}\n",
        path("nginx.pid")
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, whole).unwrap();
    file
}

fn start_nginx(directory: &Path, upstream: &str) -> (Process, u16) {
    let port = free_port();
    let file = write_nginx_configuration(directory, upstream, port);
    let mut command = Command::new("nginx");
    command.arg("-p").arg(directory).arg("-c").arg(&file).args(["-e", "stderr"]);
    let mut nginx = Process::start(&mut command);
    let has_started = wait_until(|| {
        assert!(!nginx.errors().contains("[emerg]"), "{}", nginx.errors());
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(has_started, "nginx does not start: {}", nginx.errors());
    (nginx, port)
}

impl Site {
    fn start() -> Site {
        let files = tempfile::tempdir().unwrap();
        write_certificates(files.path());
        let tokens = write_tokens(files.path());
        let arguments = ["serve", "--no-unix", "--behind-proxy", "127.0.0.1", "--host", HOST, "--tokens", &tokens];
        let server = Serving::spawn(Command::new(aaep()).args(arguments).args(["--listen", "127.0.0.1:0"]));
        let (nginx, port) = start_nginx(files.path(), &server.address().to_string());
        Site { server, nginx, port, files }
    }

    /// Returns a curl that calls nginx from 127.0.0.5.
    fn curl(&self, path: &str, token: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--no-buffer", "--noproxy", "*", "--interface", "127.0.0.5"]);
        command.arg("--cacert").arg(self.files.path().join("ca.pem"));
        command.args(["--resolve", &format!("{HOST}:{}:127.0.0.1", self.port)]);
        command.args(["--header", &format!("authorization: Bearer {token}")]);
        command.arg(format!("https://{HOST}:{}{path}", self.port));
        command
    }

    /// Posts a message. Returns the status and the body.
    fn post(&self, path: &str, message: &Value) -> (String, String) {
        let mut command = self.curl(path, TOKEN);
        let (code, output, errors) =
            run(command.args(["--json", &message.to_string(), "--write-out", "\n%{http_code}"]));
        assert_eq!(code, Some(0), "{errors}");
        let (body, status) = output.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }

    /// Emits events as an agent, through the proxy.
    fn emit(&self, event: &Value) {
        let (status, body) = self.post("/aaep/v1/agent/events", event);
        assert!(status.starts_with('2'), "{status}: {body}");
    }

    async fn websocket(&self) -> tokio_tungstenite::WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.files.path().join("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let name = ServerName::try_from(HOST).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let url = format!("wss://{HOST}:{}/aaep/v1/ws?access_token={TOKEN}", self.port);
        soon("a WebSocket", tokio_tungstenite::client_async(url, stream)).await.unwrap().0
    }
}

fn request() -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
        "capabilities": {"supports_confirmation_reply": true}})
}

fn is_question(event: &Value) -> bool {
    event["type"].as_str().is_some_and(|kind| kind.ends_with("awaiting.confirmation"))
}

/// Starts a session that asks a question. The process prints the outcome.
fn ask(site: &Site) -> Process {
    site.emit(&json!({"type": "session.started", "summary_normal": "Working."}));
    let question = json!({"type": "awaiting.confirmation", "action": "Move 500 dollars.",
        "consequence": "Only the bank can bring it back.", "timeout_seconds": 600});
    Process::start(site.curl("/aaep/v1/agent/events?wait=50", TOKEN).args(["--json", &question.to_string()]))
}

/// Returns the decision that the agent received.
fn decision(mut asking: Process) -> String {
    let output = asking.rest().join("");
    assert!(asking.wait().success(), "{}", asking.errors());
    let outcome: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    outcome["decision"].as_str().unwrap_or_else(|| panic!("{outcome}")).to_owned()
}

#[test]
fn events_and_replies_pass_through_nginx() {
    let site = Site::start();
    for version in ["--http1.1", "--http2"] {
        let (status, body) = site.post("/aaep/v1/subscriptions", &request());
        assert_eq!(status, "201", "{body}");
        let accepted: Value = serde_json::from_str(&body).unwrap();
        let subscription = accepted["subscription_id"].as_str().unwrap();
        let mut curl = site.curl(&format!("/aaep/v1/events?subscription_id={subscription}"), TOKEN);
        let stream = Process::start(curl.arg(version));
        let asking = ask(&site);
        // Each event arrives while the stream is open: nginx does not hold it back.
        let question = stream.find("a question", |line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            is_question(&event).then_some(event)
        });
        let reply = json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": "accept",
            "subscription_id": subscription, "timestamp": now()});
        assert_eq!(site.post("/aaep/v1/replies", &reply).0, "204");
        assert_eq!(decision(asking), "accept");
        site.emit(&json!({"type": "session.completed", "summary_normal": "Done."}));
        stream.find("the end", |line| line.contains("session.completed").then_some(()));
    }
}

#[tokio::test]
async fn websockets_pass_through_nginx() {
    let site = Site::start();
    let mut socket = site.websocket().await;
    socket.send(Message::text(request().to_string())).await.unwrap();
    let mut next = async || {
        loop {
            let message = soon("a message", socket.next()).await.expect("the socket stays open").unwrap();
            if let Ok(message) = serde_json::from_str::<Value>(message.to_text().unwrap_or_default()) {
                return message;
            }
        }
    };
    let accepted = next().await;
    assert_eq!(accepted["type"], "subscription.accepted", "{accepted}");
    let asking = ask(&site);
    let question = loop {
        let event = next().await;
        if is_question(&event) {
            break event;
        }
    };
    let reply = json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": "reject",
        "subscription_id": accepted["subscription_id"], "timestamp": now()});
    socket.send(Message::text(reply.to_string())).await.unwrap();
    assert_eq!(decision(asking), "reject");
}

#[tokio::test]
async fn server_sees_the_address_of_the_client_whatever_it_claims() {
    let mut site = Site::start();
    let mut curl = site.curl("/aaep/v1/events?subscription_id=sub_x", "wrong");
    for header in ["x-forwarded-for: 203.0.113.66", "forwarded: for=203.0.113.66", "x-forwarded-proto: http"] {
        curl.args(["--header", header]);
    }
    let (code, output, errors) = run(curl.args(["--write-out", "%{http_code}", "--output", "/dev/null"]));
    assert_eq!((code, output.as_str()), (Some(0), "401"), "{errors}");
    until("the address", async || site.server.process.errors().contains("client=Some(127.0.0.5)")).await;
    assert!(!site.server.process.errors().contains("203.0.113.66"));
    // A host name that the proxy passes on but the server does not serve.
    let mut curl = site.curl("/metrics", TOKEN);
    curl.args(["--header", "host: evil.example", "--header", &format!("x-forwarded-host: {HOST}")]);
    let (_, output, errors) = run(curl.args(["--write-out", "%{http_code}", "--output", "/dev/null"]));
    assert_eq!(output, "421", "{errors}");
    assert!(!site.nginx.errors().contains("[error]"), "{}", site.nginx.errors());
}
