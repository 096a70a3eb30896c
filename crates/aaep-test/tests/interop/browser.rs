//! Pages of another origin in Chromium follow sessions and reply, by fetch and EventSource and by WebSocket.
//!
//! The pages are in this directory. They report their progress to the test, which waits for it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use aaep_test::{PATIENCE, Process, Serving};
use axum::Router;
use axum::extract::State;
use axum::response::Html;
use axum::routing::{get, post};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::curl::{CurlStream, post as curl_post, subscribe};
use crate::messages::{acceptance, assert_banking_session, kind};

/// The server of the pages, and what the pages report to it.
struct Pages {
    address: SocketAddr,
    told: mpsc::UnboundedReceiver<Value>,
    events: Vec<Value>,
}

impl Pages {
    async fn start() -> Pages {
        let (sender, told) = mpsc::unbounded_channel();
        let hear = async |State(sender): State<mpsc::UnboundedSender<Value>>, body: String| {
            // The test may have ended.
            let _ = sender.send(serde_json::from_str(&body).unwrap());
        };
        let router = Router::new()
            .route("/page.js", get(async || ([("content-type", "text/javascript")], include_str!("page.js"))))
            .route("/sse", get(async || Html(include_str!("page_sse.html"))))
            .route("/ws", get(async || Html(include_str!("page_ws.html"))))
            .route("/example", get(async || Html(example_page())))
            .route(
                "/page_example.js",
                get(async || ([("content-type", "text/javascript")], include_str!("page_example.js"))),
            )
            .route("/told", post(hear))
            .with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Pages { address, told, events: Vec::new() }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the type of the last event received.
    fn last(&self) -> Option<String> {
        self.events.last()?["event_id"].as_str().map(str::to_owned)
    }

    /// Waits until the page reports this point, and keeps the events received meanwhile.
    async fn at(&mut self, browser: &mut Browser, point: &str) -> Value {
        loop {
            let told = match tokio::time::timeout(PATIENCE, self.told.recv()).await {
                Ok(Some(told)) => told,
                _ => panic!("the page did not get to {point}: {:#?}\n{}", self.events, browser.process.errors()),
            };
            if told["at"] == "event" {
                assert!(told.get("lastEventId").is_none_or(|id| *id == told["event"]["event_id"]), "{told}");
                self.events.push(told["event"].clone());
            } else if told["at"] == point {
                return told;
            }
            assert!(told["at"] != "failed", "before {point}: {told}");
        }
    }
}

/// Returns the example page as it is, followed by a script that reports what the page announces and presses its buttons.
fn example_page() -> String {
    let page = std::fs::read_to_string(aaep_test::root().join("examples/page/index.html")).unwrap();
    format!("{page}<script src=\"/page.js\"></script><script src=\"/page_example.js\"></script>")
}

/// A headless browser with one page and its own profile.
struct Browser {
    process: Process,
    _profile: TempDir,
}

impl Browser {
    fn open(page: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--disable-extensions", "--no-proxy-server", "--password-store=basic"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(page)
            // Files that it writes outside of its profile go there too.
            .env("HOME", profile.path())
            .env("XDG_CONFIG_HOME", profile.path())
            .env("XDG_CACHE_HOME", profile.path());
        Browser { process: Process::start(&mut command), _profile: profile }
    }
}

/// A proxy between the page and the demo that logs requests and can be interrupted.
struct Proxy {
    address: SocketAddr,
    /// Whether connections are forwarded. Every change closes open ones.
    open: watch::Sender<bool>,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    async fn start(demo: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, seen) = watch::channel(true);
        let sent: Arc<Mutex<Vec<u8>>> = Arc::default();
        let log = sent.clone();
        tokio::spawn(async move {
            while let Ok((page, _)) = listener.accept().await {
                let (mut seen, log) = (seen.clone(), log.clone());
                // Dropping a connection closes it.
                if *seen.borrow_and_update() {
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = relay(page, demo, log) => {}
                            _ = seen.changed() => {}
                        }
                    });
                }
            }
        });
        Proxy { address, open, sent }
    }

    /// Returns the `Last-Event-ID` of every stream request, in order.
    fn resumed(&self) -> Vec<Option<String>> {
        let sent = String::from_utf8(self.sent.lock().unwrap().clone()).unwrap();
        let streams = sent.split("GET /aaep/v1/events?").skip(1).map(|request| {
            let head = request.split("\r\n\r\n").next().unwrap();
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(name, _)| name.eq_ignore_ascii_case("last-event-id")).map(|(_, id)| id.to_owned())
        });
        streams.collect()
    }
}

/// Forwards bytes both ways until one side closes.
async fn relay(page: TcpStream, demo: SocketAddr, log: Arc<Mutex<Vec<u8>>>) -> std::io::Result<()> {
    let demo = TcpStream::connect(demo).await?;
    let ((mut from_page, mut to_page), (mut from_demo, mut to_demo)) = (page.into_split(), demo.into_split());
    let up = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_page.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            // Each request is in one read, so requests of concurrent connections do not mix.
            log.lock().unwrap().extend_from_slice(&buffer[..read]);
            to_demo.write_all(&buffer[..read]).await?;
        }
    };
    let down = async { tokio::io::copy(&mut from_demo, &mut to_page).await.map(drop) };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

/// The connection breaks twice while the agent waits for a reply. After the first break the page resumes and replies.
/// During the second, another subscriber replies, and the session ends before the page resumes.
#[tokio::test(flavor = "multi_thread")]
async fn page_with_event_source_follows_and_resumes() {
    let mut pages = Pages::start().await;
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses", "--origin", &pages.origin()]);
    let proxy = Proxy::start(demo.address()).await;
    let page = format!("{}/sse?demo=http://{}", pages.origin(), proxy.address);
    let mut browser = Browser::open(&page);

    let first = pages.at(&mut browser, "question").await["question"].clone();
    let witness = CurlStream::open(&demo, "--http1.1", &subscribe(&demo, "--http1.1", "1.1"));
    proxy.open.send_replace(false);
    assert_eq!(pages.at(&mut browser, "broken").await["state"], 0, "it will try again");
    // Not always the question, because it overtakes waiting events.
    let mut last = vec![None, pages.last()];
    proxy.open.send_replace(true);
    assert_eq!(pages.at(&mut browser, "open").await["opened"], 2);
    witness.until("session.completed");

    let second = pages.at(&mut browser, "question").await;
    proxy.open.send_replace(false);
    pages.at(&mut browser, "broken").await;
    last.push(pages.last());
    let answer = acceptance(second["subscription"].as_str().unwrap(), &second["question"]);
    let (status, body) = curl_post(&demo, "--http1.1", "/aaep/v1/replies", &answer);
    assert_eq!(status, "1.1 204", "{body}");
    let heard = witness.until("session.completed");
    proxy.open.send_replace(true);
    assert_eq!(pages.at(&mut browser, "done").await["opened"], 3);

    let of = |session: &Value| -> Vec<Value> {
        pages.events.iter().filter(|event| event["session_id"] == *session).cloned().collect()
    };
    assert_banking_session(&of(&first["session_id"]));
    let session = of(&second["question"]["session_id"]);
    assert_banking_session(&session);
    // Waiting events may be coalesced: consecutive states, and text into fewer chunks.
    let whole = |event: &&Value| !["state.changed", "output.streaming"].contains(&kind(event));
    let kinds = |events: &[Value]| events.iter().filter(whole).map(|e| kind(e).to_owned()).collect::<Vec<_>>();
    assert_eq!(kinds(&session), kinds(&heard), "who was never away heard the same");
    assert_eq!(proxy.resumed(), last, "it resumes after the last event it received");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_with_websocket_follows() {
    let mut pages = Pages::start().await;
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses", "--origin", &pages.origin()]);
    let mut browser = Browser::open(&format!("{}/ws?demo={}", pages.origin(), demo.url("")));
    let done = pages.at(&mut browser, "done").await;
    assert_eq!((&done["code"], &done["protocol"]), (&4005.into(), &"aaep.v1".into()));
    assert_banking_session(&pages.events);
}

/// For the browser and the demo, `localhost` is another origin than `127.0.0.1`.
#[tokio::test(flavor = "multi_thread")]
async fn page_of_an_unknown_origin_receives_nothing() {
    let mut pages = Pages::start().await;
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses", "--origin", &pages.origin()]);
    let foreign = format!("http://localhost:{}", pages.address.port());
    for page in ["sse", "ws"] {
        let mut browser = Browser::open(&format!("{foreign}/{page}?demo={}", demo.url("")));
        match page {
            "sse" => drop(pages.at(&mut browser, "refused").await),
            _ => assert_eq!(pages.at(&mut browser, "done").await["code"], 1006, "no connection came about"),
        }
    }
    assert!(pages.events.is_empty(), "{:#?}", pages.events);
}

/// Opens the example page and presses a button of its first question. Returns what the page announced for the question,
/// its status afterwards, and the lines of its log up to the end of the session.
async fn answer_on_example_page(button: &str, last_line: &str) -> (Value, Value, Vec<String>) {
    let mut pages = Pages::start().await;
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses", "--origin", &pages.origin()]);
    let page = format!("{}/example?server={}&press={button}", pages.origin(), demo.url(""));
    let mut browser = Browser::open(&page);
    let (mut alert, mut status, mut lines) = (Value::Null, Value::Null, Vec::new());
    loop {
        let told = tokio::time::timeout(PATIENCE, pages.told.recv()).await;
        let Ok(Some(told)) = told else { panic!("only {lines:#?}\n{}", browser.process.errors()) };
        assert!(told["at"] != "failed", "{told}");
        match told["at"].as_str() {
            Some("alert") if alert.is_null() => alert = told,
            Some("connection") if !alert.is_null() => status = told["text"].clone(),
            Some("line") => lines.push(told["text"].as_str().unwrap().to_owned()),
            _ => {}
        }
        if lines.iter().any(|line| line.contains(last_line)) && !status.is_null() {
            return (alert, status, lines);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn example_page_announces_a_question_and_sends_yes() {
    let (alert, status, lines) = answer_on_example_page("Yes", "Transferred $500").await;
    let text = alert["text"].as_str().unwrap();
    assert!(text.starts_with("Question: ") && text.contains("cannot be undone"), "{text}");
    assert_eq!(alert["buttons"], serde_json::json!(["Yes, do it", "No"]));
    assert!(text.contains(alert["label"].as_str().unwrap()), "{alert}");
    assert_eq!(status, "Sent: yes.");
    let transfer = lines.iter().position(|line| line.contains("Transferred $500"));
    assert!(transfer > Some(0), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_page_sends_no() {
    let (_, status, lines) = answer_on_example_page("No", "Nothing was transferred, as you wished.").await;
    assert_eq!(status, "Sent: no.");
    assert!(!lines.iter().any(|line| line.contains("Transferred")), "{lines:?}");
}
