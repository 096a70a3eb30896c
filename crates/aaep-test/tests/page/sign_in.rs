//! A server with tokens: the page asks for one, keeps it in memory, and sends it in headers alone.

use std::sync::{Arc, Mutex};

use aaep_server::{AuthConfig, Config, RunningServer, Server};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;

in_both_browsers!(token_is_asked_for_and_never_in_an_address, operator_view_needs_the_role);

const TOKEN: &str = "correct-horse-battery-staple-0123456789";
const ADMIN: &str = "admin-horse-battery-staple-0123456789ab";

/// Starts a server that accepts two tokens.
async fn start(files: &TempDir) -> RunningServer {
    let path = files.path().join("tokens");
    std::fs::write(&path, format!("{TOKEN} ada subscribe,reply\n{ADMIN} olu subscribe,reply,admin\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let auth = AuthConfig { tokens: Some(path), ..AuthConfig::default() };
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), auth, ..Config::default() };
    config.transports.unix = false;
    let producer = Server::producer(&config);
    Server::new(config, producer).start().await.unwrap()
}

/// A proxy that notes the first line of each request: what a log would have.
async fn logging_proxy(server: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log: Arc<Mutex<String>> = Arc::default();
    let noted = log.clone();
    tokio::spawn(async move {
        while let Ok((mut page, _)) = listener.accept().await {
            let noted = noted.clone();
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(server).await else { return };
                let ((mut from_page, mut to_page), (mut from_server, mut to_server)) = (page.split(), server.split());
                let up = async {
                    let mut buffer = vec![0; 16 * 1024];
                    while let Ok(read @ 1..) = from_page.read(&mut buffer).await {
                        let text = String::from_utf8_lossy(&buffer[..read]);
                        let is_request =
                            |line: &&str| line.ends_with("HTTP/1.1") || line.to_lowercase().starts_with("referer");
                        text.lines().filter(is_request).for_each(|line| {
                            let mut noted = noted.lock().unwrap();
                            noted.push_str(line);
                            noted.push('\n');
                        });
                        if to_server.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                };
                let down = async { drop(tokio::io::copy(&mut from_server, &mut to_page).await) };
                tokio::select! { () = up => {} () = down => {} }
            });
        }
    });
    (address, log)
}

async fn sign_in(browser: &mut Browser, token: &str) {
    browser.until("!document.getElementById('sign-in').hidden").await;
    assert_eq!(browser.focused().await, "Token");
    browser.type_text(token).await;
    browser.press("Enter").await;
}

async fn token_is_asked_for_and_never_in_an_address(kind: BrowserKind) {
    let files = TempDir::new().unwrap();
    let server = start(&files).await;
    let (address, log) = logging_proxy(server.address()).await;
    let mut browser = Browser::start(kind).await;
    browser.open(&format!("http://{address}/")).await;
    sign_in(&mut browser, "wrong-horse-battery-staple-000000000000").await;
    browser.until("document.getElementById('sign-in-problem') !== null").await;
    sign_in(&mut browser, TOKEN).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    let session = server.producer().session("Working.").await.unwrap();
    browser.until_heard("Working.").await;
    session.complete("Done.").await.unwrap();
    let log = log.lock().unwrap().clone();
    assert!(
        log.contains("POST /aaep/v1/subscriptions") && log.contains("GET /aaep/v1/events?subscription_id=sub_"),
        "{log}"
    );
    assert!(!log.contains("horse") && !log.contains("token"), "{log}");
    let kept = browser
        .text("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state])")
        .await;
    assert!(!kept.contains("horse"), "{kept}");
    assert!(!browser.text("document.documentElement.outerHTML").await.contains("horse"));
    // Another load asks again: the token was in memory only.
    browser.open(&format!("http://{address}/")).await;
    browser.until("!document.getElementById('sign-in').hidden").await;
    browser.assert_clean().await;
}

async fn operator_view_needs_the_role(kind: BrowserKind) {
    let files = TempDir::new().unwrap();
    let server = start(&files).await;
    let mut browser = Browser::start(kind).await;
    browser.open(&server.url()).await;
    sign_in(&mut browser, TOKEN).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    browser.eval("document.getElementById('tab-operator').click()").await;
    browser.until("document.getElementById('operator-problem').textContent.includes('role admin')").await;
    browser.open(&server.url()).await;
    sign_in(&mut browser, ADMIN).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    let session = server.producer().session("Working.").await.unwrap();
    let asked =
        tokio::spawn(async move { session.confirm(aaep::Confirmation::new("Delete a file.", "It is gone.")).await });
    browser.until_question("Delete a file.").await;
    browser.press("Escape").await;
    browser.until_closed().await;
    browser.eval("document.getElementById('tab-operator').click()").await;
    browser.until("document.getElementById('operator-questions').textContent.includes('Delete a file.')").await;
    let rows = browser
        .eval(
            "[...document.getElementById('operator-subscriptions').rows].map((row) => row.cells[1].textContent).sort()",
        )
        .await;
    assert!(rows.as_array().unwrap().contains(&json!("olu")), "{rows}");
    browser.eval("document.querySelector('#question-list button').click()").await;
    browser.until_question("Delete a file.").await;
    browser.press("Enter").await;
    browser.until_closed().await;
    browser.until("document.getElementById('operator-decisions').textContent.includes('rejected')").await;
    browser.until("document.querySelector('#operator-plot svg polyline') !== null").await;
    asked.await.unwrap().unwrap();
    browser.assert_clean().await;
}
