//! How questions end without an answer on the page, and what becomes of a session whose server is killed.

use std::process::Command;

use aaep::{Confirmation, Producer};
use aaep_server::{Config, RunningServer, Server};
use aaep_test::{Serving, aaep};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;

in_both_browsers!(
    question_times_out,
    question_is_answered_by_another_subscriber,
    restarted_server_loses_and_doubles_nothing,
    websocket_is_the_fallback,
);

/// Starts a server in this process and opens its page.
async fn open_server(kind: BrowserKind) -> (RunningServer, Producer, Browser) {
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    config.transports.unix = false;
    config.agent_name = Some("Helper".to_owned());
    let producer = Server::producer(&config);
    let server = Server::new(config, producer.clone()).start().await.unwrap();
    let mut browser = Browser::start(kind).await;
    browser.open(&server.url()).await;
    browser.until("document.getElementById('connection').textContent === 'Connected to Helper.'").await;
    (server, producer, browser)
}

async fn question_times_out(kind: BrowserKind) {
    let (_server, producer, mut browser) = open_server(kind).await;
    let session = producer.session("Tidying.").await.unwrap();
    let question = Confirmation::new("Delete a file.", "It is gone.").irreversible().timeout_seconds(8);
    let asked = tokio::spawn(async move {
        let outcome = session.confirm(question).await.unwrap();
        session.complete("Over.").await.unwrap();
        outcome
    });
    browser.until_question("Delete a file.").await;
    browser.until_heard("No answer came in time. It will not be done.").await;
    browser.until_closed().await;
    assert_eq!(asked.await.unwrap().resolution, aaep::Resolution::TimedOut);
    browser.until_heard("Done. Over.").await;
    let heard = browser.heard().await;
    let told = heard.iter().filter(|one| one.contains("No answer came in time")).count();
    assert_eq!(told, 1, "the reason is announced once: {heard:?}");
    browser.assert_clean().await;
}

async fn question_is_answered_by_another_subscriber(kind: BrowserKind) {
    let (server, producer, mut browser) = open_server(kind).await;
    let address = server.address();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "other",
        "capabilities": {"supports_confirmation_reply": true}});
    let accepted = post(address, "/aaep/v1/subscriptions", &request).await.1;
    let session = producer.session("Tidying.").await.unwrap();
    let asked =
        tokio::spawn(async move { session.confirm(Confirmation::new("Delete a file.", "It is gone.")).await.unwrap() });
    browser.until_question("Delete a file.").await;
    // Both subscriptions know the same question.
    let token = browser.text("document.querySelector('#question-list button').id.replace('answer-', '')").await;
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept",
        "subscription_id": accepted["subscription_id"], "timestamp": aaep_test::now()});
    assert_eq!(post(address, "/aaep/v1/replies", &reply).await.0, 204);
    browser.until_heard("The question was answered elsewhere.").await;
    browser.until_closed().await;
    assert_eq!(asked.await.unwrap().resolution, aaep::Resolution::Accepted);
    assert!(!browser.heard().await.iter().any(|one| one.contains("Sent:")));
    browser.assert_clean().await;
}

/// Posts a message and returns the status and the body.
pub(crate) async fn post(address: std::net::SocketAddr, path: &str, message: &Value) -> (u16, Value) {
    let body = message.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// The server is killed while an agent is at work, and started again at the same address with the same data.
async fn restarted_server_loses_and_doubles_nothing(kind: BrowserKind) {
    let data = tempfile::tempdir().unwrap();
    let serve = |listen: &str| {
        let mut command = Command::new(aaep());
        command.args(["serve", "--no-unix", "--listen", listen, "--data"]).arg(data.path());
        Serving::spawn(&mut command)
    };
    let server = serve("127.0.0.1:0");
    let address = server.address();
    let mut browser = Browser::start(kind).await;
    browser.open(&server.url("/")).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    let agent = "/aaep/v1/agent/events";
    let emit = async |event: Value| {
        let (status, answer) = post(address, agent, &event).await;
        assert_eq!(status, 200, "{event}: {answer}");
    };
    emit(json!({"type": "session.started", "session_id": "one", "summary_normal": "Counting to six."})).await;
    for number in ["One", "Two", "Three"] {
        emit(json!({"type": "state.changed", "session_id": "one", "to_state": number.to_lowercase(), "summary_normal": format!("{number}.")})).await;
    }
    browser.until_heard("polite: Three.").await;
    drop(server);
    browser.until("document.getElementById('connection').textContent.includes('is lost')").await;
    let _server = serve(&address.to_string());
    for number in ["Four", "Five", "Six"] {
        emit(json!({"type": "state.changed", "session_id": "one", "to_state": number.to_lowercase(), "summary_normal": format!("{number}.")})).await;
    }
    emit(json!({"type": "session.completed", "session_id": "one", "summary_normal": "Counted to six."})).await;
    browser.until_heard("Done. Counted to six.").await;
    let entries =
        browser.eval("[...document.querySelectorAll('#transcript-list li > p')].map((one) => one.textContent)").await;
    let entries: Vec<String> = serde_json::from_value(entries).unwrap();
    let counted: Vec<&str> = entries
        .iter()
        .map(String::as_str)
        .filter(|text| ["One.", "Two.", "Three.", "Four.", "Five.", "Six.", "Counted to six."].contains(text))
        .collect();
    // States that wait may be coalesced into the newest; nothing comes twice, and the last state and the end come.
    let mut once = counted.clone();
    once.dedup();
    assert_eq!(counted, once, "{entries:?}");
    assert!(
        counted.starts_with(&["One.", "Two.", "Three."]) && counted.ends_with(&["Six.", "Counted to six."]),
        "{entries:?}"
    );
    let heard = browser.heard().await;
    for text in ["Three.", "Six.", "Done. Counted to six."] {
        assert_eq!(heard.iter().filter(|one| *one == &format!("polite: {text}")).count(), 1, "{heard:?}");
    }
    assert!(heard.iter().any(|one| one.contains("The connection to aaep is lost")), "{heard:?}");
    assert!(heard.iter().any(|one| one.contains("is back")), "{heard:?}");
    browser.assert_clean().await;
}

/// A server without server-sent events: the page falls back to its WebSocket, and answers over it.
async fn websocket_is_the_fallback(kind: BrowserKind) {
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    (config.transports.unix, config.transports.sse) = (false, false);
    let producer = Server::producer(&config);
    let server = Server::new(config, producer.clone()).start().await.unwrap();
    let mut browser = Browser::start(kind).await;
    browser.open(&server.url()).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    let session = producer.session("Tidying.").await.unwrap();
    let asked = tokio::spawn(async move {
        let outcome = session.confirm(Confirmation::new("Delete a file.", "It is gone.")).await.unwrap();
        session.complete("Over.").await.unwrap();
        outcome
    });
    browser.until_question("Delete a file.").await;
    browser.tab_to("Yes, do it").await;
    browser.press("Enter").await;
    browser.until_heard("Done. Over.").await;
    assert_eq!(asked.await.unwrap().resolution, aaep::Resolution::Accepted);
    browser.assert_clean().await;
}
