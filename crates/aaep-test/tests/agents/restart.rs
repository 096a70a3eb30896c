//! After the server was killed and restarted, an agent continues its session with its tool calls, questions and permits.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use aaep_test::Serving;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::harness::{DEADLINE, Subscriber};

/// Starts a server with this data directory. It is killed when dropped.
fn serve(dir: &Path) -> Serving {
    Serving::start(&["serve", "--no-unix", "--data", dir.to_str().unwrap()])
}

/// Sends an event of an agent. Returns the response, or `None` if the server exits before it responds.
async fn post(server: &Serving, query: &str, event: &Value) -> Option<(u16, Value)> {
    let body = event.to_string();
    let request = format!(
        "POST /aaep/v1/agent/events{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    send_request(server.address(), request).await
}

async fn send_request(address: std::net::SocketAddr, request: String) -> Option<(u16, Value)> {
    let work = async {
        let mut answer = String::new();
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    };
    tokio::time::timeout(DEADLINE, work).await.expect("a response in time")
}

async fn post_event(server: &Serving, query: &str, event: &Value) -> (u16, Value) {
    post(server, query, event).await.expect("the server is running")
}

/// Sends an event that is published. Returns its session.
async fn published(server: &Serving, query: &str, event: &Value) -> Value {
    let (status, answer) = post_event(server, query, event).await;
    assert_eq!((status, &answer["type"]), (200, &json!("published")), "{event}: {answer}");
    answer["session_id"].clone()
}

/// Sends an event that is refused. Returns the error message.
async fn refused(server: &Serving, query: &str, event: &Value) -> String {
    let (status, answer) = post_event(server, query, event).await;
    assert_eq!((status, &answer["type"]), (422, &json!("refused")), "{event}: {answer}");
    answer["problems"][0]["message"].as_str().unwrap().to_owned()
}

/// Waits until all events so far are on the disk. A question is delivered only after everything before it was recorded, so
/// another agent asks one.
async fn wait_until_recorded(server: &Serving) {
    // A new agent each time: the question of an earlier one may still be open, or be answered.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let other = format!("?agent=other{}&wait=0", COUNT.fetch_add(1, Relaxed));
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let asked = json!({"type": "awaiting.confirmation", "event_id": "q", "action": other,
        "consequence": "Nothing.", "timeout_seconds": 3600});
    assert_eq!(post_event(server, &other, &asked).await.0, 202);
    until_asked(&mut subscriber, "action", &other).await;
}

/// Receives until the question with this text in this field. Returns it.
async fn until_asked(subscriber: &mut Subscriber, field: &str, text: &str) -> Value {
    loop {
        let event = subscriber.next().await.expect("the question is delivered");
        if event[field] == text {
            return event;
        }
    }
}

fn started() -> Value {
    json!({"type": "session.started", "session_id": "s", "summary_normal": "Tidying."})
}

fn question(action: &str) -> Value {
    json!({"type": "awaiting.confirmation", "event_id": "q", "session_id": "s", "action": action, "tool": "burn",
        "consequence": "They are gone.", "irreversible": true, "timeout_seconds": 3600})
}

fn burn() -> Value {
    json!({"type": "tool.invoked", "tool": "burn", "irreversible": true, "summary_normal": "Burning.",
        "session_id": "s"})
}

#[tokio::test(flavor = "multi_thread")]
async fn question_survives_a_restart_and_its_permit_is_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let leaves = question("Burn the leaves.");

    let server = serve(dir.path());
    let session = published(&server, "", &started()).await;
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let asking = post(&server, "?wait=300", &leaves);
    let seen = subscriber.wait_for_event("awaiting.confirmation");
    let asked = tokio::select! {
        answer = asking => panic!("there was no reply: {answer:?}"),
        (asked, _) = seen => asked,
    };
    drop(server);

    let server = serve(dir.path());
    assert_eq!(post_event(&server, "?wait=0", &leaves).await.0, 202);
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let (again, _) = subscriber.wait_for_event("awaiting.confirmation").await;
    assert_eq!((&again["reply_token"], &again["session_id"]), (&asked["reply_token"], &session));
    let (decided, ()) =
        tokio::join!(post_event(&server, "?wait=300", &leaves), subscriber.reply(&again, "decision", json!("accept")));
    assert_eq!((decided.0, &decided.1["decision"], &decided.1["session_id"]), (200, &json!("accept"), &session));
    assert_eq!(published(&server, "", &burn()).await, session);
    let (_, before) = subscriber.wait_for_event("tool.invoked").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    drop(server);

    let server = serve(dir.path());
    assert_eq!(post_event(&server, "?wait=0", &leaves).await, decided);
    assert!(refused(&server, "", &burn()).await.starts_with("Ask first"));
    drop(server);

    // Another question with the same id does not get the outcome of the first.
    let server = serve(dir.path());
    assert_eq!(post_event(&server, "?wait=0", &question("Burn the house.")).await.0, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn permit_survives_a_restart_and_is_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let session = published(&server, "", &started()).await;
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    for (id, args) in [("q", json!({"bed": 1})), ("r", json!({"bed": 2}))] {
        let mut asked = question(&format!("Burn the leaves of {id}."));
        asked["event_id"] = json!(id);
        asked["args"] = args;
        let deciding = async {
            let asked = until_asked(&mut subscriber, "action", &format!("Burn the leaves of {id}.")).await;
            subscriber.reply(&asked, "decision", json!("accept")).await;
        };
        let (decided, ()) = tokio::join!(post_event(&server, "?wait=300", &asked), deciding);
        assert_eq!(decided.1["decision"], "accept", "{decided:?}");
    }
    drop(server);

    // The agent has its outcome and does not ask again.
    let with = |args: Value| {
        let mut burn = burn();
        burn["args"] = args;
        burn
    };
    let server = serve(dir.path());
    assert!(refused(&server, "", &with(json!({"bed": 3}))).await.contains("other arguments"));
    assert_eq!(published(&server, "", &with(json!({"bed": 1}))).await, session);
    assert!(refused(&server, "", &with(json!({"bed": 1}))).await.contains("other arguments"));
    drop(server);

    let server = serve(dir.path());
    refused(&server, "", &with(json!({"bed": 1}))).await;
    assert_eq!(published(&server, "", &with(json!({"bed": 2}))).await, session);
    drop(server);

    // A tool that was declared irreversible stays so for the whole session, even if the agent states otherwise.
    let server = serve(dir.path());
    let harmless = json!({"type": "tool.invoked", "tool": "burn", "summary_normal": "Burning.", "session_id": "s"});
    for event in [with(json!({"bed": 2})), harmless] {
        assert!(refused(&server, "", &event).await.starts_with("Ask first"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_tool_call_is_completed_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let dig = json!({"type": "tool.invoked", "tool": "dig", "summary_normal": "Digging.", "session_id": "s"});
    let named = json!({"type": "tool.invoked", "tool": "dig", "tool_call_id": "call_two", "summary_normal": "Digging.",
        "session_id": "s"});

    let server = serve(dir.path());
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let session = published(&server, "", &started()).await;
    published(&server, "", &dig).await;
    let (invoked, _) = subscriber.wait_for_event("tool.invoked").await;
    published(&server, "", &named).await;
    wait_until_recorded(&server).await;
    drop(server);

    let server = serve(dir.path());
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let done = |more: Value| {
        let mut done = json!({"type": "tool.completed", "tool": "dig", "status": "success", "session_id": "s"});
        done.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        done
    };
    let completed = json!({"type": "session.completed", "summary_normal": "Dug.", "session_id": "s"});
    assert!(refused(&server, "", &completed).await.contains("Complete the tools"));
    for (more, call) in
        [(json!({"tool_call_id": "call_two"}), json!("call_two")), (json!({}), invoked["tool_call_id"].clone())]
    {
        assert_eq!(published(&server, "", &done(more)).await, session);
        let (event, _) = subscriber.wait_for_event("tool.completed").await;
        assert_eq!((&event["session_id"], &event["tool_call_id"]), (&session, &call));
    }
    refused(&server, "", &done(json!({}))).await;
    assert_eq!(published(&server, "", &completed).await, session);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_without_a_question_is_continued_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let state = json!({"type": "state.changed", "to_state": "deciding", "summary_normal": "Choosing."});
    let in_session = |event: &Value, session: &Value| {
        let mut event = event.clone();
        event["session_id"] = session.clone();
        event
    };

    let server = serve(dir.path());
    let named = published(&server, "", &started()).await;
    // A session without an id of the agent, and one without `session.started`.
    let unnamed =
        published(&server, "?agent=roses", &json!({"type": "session.started", "summary_normal": "Roses."})).await;
    let begun = published(&server, "?agent=beans", &state).await;
    wait_until_recorded(&server).await;
    drop(server);

    let server = serve(dir.path());
    // Another agent cannot use the session, even with its id.
    assert_ne!(published(&server, "?agent=weeds", &in_session(&state, &named)).await, named);
    assert_ne!(published(&server, "?agent=weeds", &in_session(&state, &json!("s"))).await, named);
    assert_eq!(published(&server, "", &in_session(&state, &json!("s"))).await, named);
    assert_eq!(published(&server, "", &in_session(&state, &named)).await, named);
    let chunk = json!({"type": "output.streaming", "chunk": "Red ones.", "complete": true});
    assert_eq!(published(&server, "?agent=roses", &chunk).await, unnamed);
    wait_until_recorded(&server).await;
    drop(server);

    // A second restart works too, and so does the session id that subscribers get.
    let server = serve(dir.path());
    assert_eq!(published(&server, "", &in_session(&state, &named)).await, named);
    assert_eq!(published(&server, "", &in_session(&state, &json!("s"))).await, named);
    assert_eq!(published(&server, "?agent=beans", &state).await, begun);
    let done = json!({"type": "session.completed", "summary_normal": "Done."});
    assert_eq!(published(&server, "?agent=roses", &done).await, unnamed);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_start_continues_the_session_and_another_cancels_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = started();
    start["event_id"] = json!("begin");
    let server = serve(dir.path());
    let first = published(&server, "", &start).await;
    let leaves = question("Burn the leaves.");
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    assert_eq!(post_event(&server, "?wait=0", &leaves).await.0, 202);
    subscriber.wait_for_event("awaiting.confirmation").await;
    drop(server);

    // The agent got no response, so it sends the event again.
    let server = serve(dir.path());
    assert_eq!(published(&server, "", &start).await, first);
    drop(server);

    // The agent starts over: its old session is cancelled, and its question is a new one.
    let server = serve(dir.path());
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    start["event_id"] = json!("begin again");
    let second = published(&server, "", &start).await;
    assert_ne!(second, first);
    let (cancelled, _) = subscriber.wait_for_event("session.cancelled").await;
    assert_eq!(cancelled["session_id"], first);
    assert_eq!(post_event(&server, "?wait=0", &leaves).await.0, 202);
    let (asked, _) = subscriber.wait_for_event("awaiting.confirmation").await;
    assert_eq!(asked["session_id"], second);
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// An agent over HTTP requests or a WebSocket.
enum Agent {
    Http,
    Socket(Box<Socket>),
}

impl Agent {
    async fn new(server: &Serving, socket: bool) -> Agent {
        if !socket {
            return Agent::Http;
        }
        let address = format!("ws://{}/aaep/v1/agent/ws?agent=roses", server.address());
        Agent::Socket(Box::new(tokio_tungstenite::connect_async(address).await.unwrap().0))
    }

    /// Sends an event without waiting for the response.
    async fn send(&mut self, server: &Serving, event: &Value) {
        match self {
            Agent::Http => drop(post_event(server, "?agent=roses&wait=0", event).await),
            Agent::Socket(socket) => socket.send(Message::text(event.to_string())).await.unwrap(),
        }
    }

    /// Sends a question and waits for its outcome.
    async fn ask(&mut self, server: &Serving, event: &Value) -> Value {
        let Agent::Socket(socket) = self else { return post_event(server, "?agent=roses&wait=300", event).await.1 };
        socket.send(Message::text(event.to_string())).await.unwrap();
        loop {
            match tokio::time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                _ => continue,
            }
        }
    }
}

async fn check_clarification_survives_a_restart(socket: bool) {
    let dir = tempfile::tempdir().unwrap();
    let asks = |id: &str, text: &str| {
        json!({"type": "awaiting.clarification", "event_id": id, "session_id": "s", "question": text,
            "accepted_response_kinds": ["freetext"], "timeout_seconds": 3600})
    };
    let (which, when) = (asks("which", "Which bed?"), asks("when", "And when?"));

    let server = serve(dir.path());
    let mut agent = Agent::new(&server, socket).await;
    agent.send(&server, &started()).await;
    agent.send(&server, &which).await;
    agent.send(&server, &when).await;
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let session = until_asked(&mut subscriber, "question", "And when?").await["session_id"].clone();
    drop(server);

    // One question is answered while the agent is disconnected; the other after it was sent again on a connection that is
    // lost before the reply.
    let server = serve(dir.path());
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let asked = until_asked(&mut subscriber, "question", "Which bed?").await;
    subscriber.reply(&asked, "response", json!("the long one")).await;
    subscriber.wait_for_event("state.changed").await;
    wait_until_recorded(&server).await;
    let mut agent = Agent::new(&server, socket).await;
    let answered = agent.ask(&server, &which).await;
    assert_eq!((&answered["response"], &answered["verdict"]), (&json!("the long one"), &json!("answered")));
    assert_eq!(answered["session_id"], session);
    agent.send(&server, &when).await;
    drop(agent);
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let asked = until_asked(&mut subscriber, "question", "And when?").await;
    let mut agent = Agent::new(&server, socket).await;
    let (answered, ()) =
        tokio::join!(agent.ask(&server, &when), subscriber.reply(&asked, "response", json!("in May")),);
    assert_eq!((&answered["response"], &answered["session_id"]), (&json!("in May"), &session));
    drop(server);

    // The outcome does not change.
    let server = serve(dir.path());
    let mut agent = Agent::new(&server, socket).await;
    assert_eq!(agent.ask(&server, &which).await["response"], "the long one");
    assert_eq!(agent.ask(&server, &when).await["response"], "in May");
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let end = json!({"type": "session.completed", "summary_normal": "Done.", "session_id": "s"});
    agent.send(&server, &end).await;
    let (ended, _) = subscriber.wait_for_event("session.completed").await;
    assert_eq!(ended["session_id"], session);
}

#[tokio::test(flavor = "multi_thread")]
async fn clarification_survives_a_restart_over_http() {
    check_clarification_survives_a_restart(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clarification_survives_a_restart_over_websocket() {
    check_clarification_survives_a_restart(true).await;
}
