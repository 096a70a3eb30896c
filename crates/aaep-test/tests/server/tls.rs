//! TLS: which certificates are accepted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aaep_server::{Config, RunningServer, Server, TlsConfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// The years in which a certificate is valid.
const NOW: (i32, i32) = (2020, 2090);
const PAST: (i32, i32) = (2010, 2011);

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

struct Issued {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn issue(authority: &Authority, purpose: ExtendedKeyUsagePurpose, years: (i32, i32)) -> Issued {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![purpose];
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Issued { certificate, key }
}

fn write(issued: &Issued, files: &Path) -> TlsConfig {
    let (cert, key) = (files.join("cert.pem"), files.join("key.pem"));
    std::fs::write(&cert, issued.certificate.pem()).unwrap();
    std::fs::write(&key, issued.key.serialize_pem()).unwrap();
    TlsConfig { cert, key, client_ca: None }
}

struct TestServer {
    server: RunningServer,
    authority: Authority,
    files: TempDir,
}

async fn start_server(years: (i32, i32), client_ca: Option<&Authority>) -> TestServer {
    let (files, authority) = (TempDir::new().unwrap(), authority());
    let mut tls = write(&issue(&authority, ExtendedKeyUsagePurpose::ServerAuth, years), files.path());
    tls.client_ca = client_ca.map(|ca| {
        let path = files.path().join("clients.pem");
        std::fs::write(&path, ca.pem()).unwrap();
        path
    });
    TestServer { server: start(Config { tls: Some(tls), ..config() }).await, authority, files }
}

fn client(trusted: &Authority, own: Option<&Issued>, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![own.certificate.der().clone()], key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Requests the terms of a subscription. Returns the status line, or the error.
async fn ask(address: SocketAddr, connector: &TlsConnector) -> Result<String, String> {
    soon("an answer", async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
        let body = request().to_string();
        let head = format!("POST /aaep/v1/subscriptions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.map_err(|e| e.to_string())?;
        stream.write_all(body.as_bytes()).await.map_err(|e| e.to_string())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
    })
    .await
}

const CREATED: &str = "HTTP/1.1 201 Created";

#[tokio::test]
async fn client_that_trusts_the_authority_connects() {
    let test = start_server(NOW, None).await;
    assert_eq!(ask(test.server.address(), &client(&test.authority, None, &[])).await.as_deref(), Ok(CREATED));
    assert!(test.server.url().starts_with("https://"));
}

#[tokio::test]
async fn wrong_authority_or_expired_certificate_fails_the_handshake() {
    let good = start_server(NOW, None).await;
    let stranger = client(&authority(), None, &[]);
    let error = ask(good.server.address(), &stranger).await.unwrap_err();
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
    let old = start_server(PAST, None).await;
    let error = ask(old.server.address(), &client(&old.authority, None, &[])).await.unwrap_err();
    assert!(error.contains("expired"), "{error}");
    // Both servers continue.
    assert_eq!(ask(good.server.address(), &client(&good.authority, None, &[])).await.as_deref(), Ok(CREATED));
}

#[tokio::test]
async fn client_certificates_are_required_and_verified() {
    let clients = authority();
    let test = start_server(NOW, Some(&clients)).await;
    let address = test.server.address();
    let ask_with = async |own: Option<&Issued>| ask(address, &client(&test.authority, own, &[])).await;
    let known = issue(&clients, ExtendedKeyUsagePurpose::ClientAuth, NOW);
    assert_eq!(ask_with(Some(&known)).await.as_deref(), Ok(CREATED));
    let expired = issue(&clients, ExtendedKeyUsagePurpose::ClientAuth, PAST);
    let foreign = issue(&authority(), ExtendedKeyUsagePurpose::ClientAuth, NOW);
    let of_a_server = issue(&clients, ExtendedKeyUsagePurpose::ServerAuth, NOW);
    for wrong in [None, Some(&expired), Some(&foreign), Some(&of_a_server)] {
        let result = ask_with(wrong).await;
        assert!(!matches!(&result, Ok(status) if status.starts_with("HTTP/1.1 2")), "{result:?}");
    }
    // Two certificates are two principals: one cannot use the subscription of the other.
    let presence = test.server.producer().subscriber_counts().await;
    assert_eq!(presence.subscriptions, 1);
}

#[tokio::test]
async fn replaced_client_authority_closes_connections_of_its_certificates() {
    let clients = authority();
    let test = start_server(NOW, Some(&clients)).await;
    let address = test.server.address();
    let known = client(&test.authority, Some(&issue(&clients, ExtendedKeyUsagePurpose::ClientAuth, NOW)), &[]);
    let (mut events, _) = soon("a stream", async {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = known.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
        let body = request().to_string();
        let head = format!("POST /aaep/v1/subscriptions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with('}') {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            answer.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
        let head = format!("GET {location} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        (stream, answer)
    })
    .await;
    let next = authority();
    std::fs::write(test.files.path().join("clients.pem"), next.pem()).unwrap();
    let mut told = Vec::new();
    // The connection may be closed without `close_notify`.
    let _ = soon("the end of the stream", events.read_to_end(&mut told)).await;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("authentication_required"), "{told}");
    let result = ask(address, &known).await;
    assert!(!matches!(&result, Ok(status) if status.starts_with("HTTP/1.1 2")), "{result:?}");
    let new = client(&test.authority, Some(&issue(&next, ExtendedKeyUsagePurpose::ClientAuth, NOW)), &[]);
    assert_eq!(ask(address, &new).await.as_deref(), Ok(CREATED));
}

#[tokio::test]
async fn alpn_negotiates_http_2() {
    let test = start_server(NOW, None).await;
    let stream = TcpStream::connect(test.server.address()).await.unwrap();
    let connector = client(&test.authority, None, &[b"h2", b"http/1.1"]);
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test]
async fn new_certificate_is_used_without_a_restart() {
    let test = start_server(NOW, None).await;
    let next = authority();
    write(&issue(&next, ExtendedKeyUsagePurpose::ServerAuth, NOW), test.files.path());
    let connector = client(&next, None, &[]);
    until("the new certificate is in use", async || ask(test.server.address(), &connector).await.is_ok()).await;
    // With an invalid file, the last valid one stays in use.
    std::fs::write(test.files.path().join("cert.pem"), "nonsense").unwrap();
    assert_eq!(ask(test.server.address(), &connector).await.as_deref(), Ok(CREATED));
}

#[tokio::test]
async fn unreadable_certificate_is_reported_at_startup() {
    let files = TempDir::new().unwrap();
    let tls = TlsConfig { cert: files.path().join("none.pem"), key: PathBuf::from("none.pem"), client_ca: None };
    let config = Config { tls: Some(tls), ..config() };
    let error = Server::new(config.clone(), Server::producer(&config)).start().await.unwrap_err().to_string();
    assert!(error.starts_with("tls.cert: cannot read") && error.contains("none.pem"), "{error}");
}
