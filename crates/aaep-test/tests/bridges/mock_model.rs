//! A model on loopback: it calls one tool, and after the result of the tool it says one sentence.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

/// What the model says after the tool.
pub(crate) const LAST_WORDS: &str = "The mock model is done.";

/// The tool call of the model.
#[derive(Clone)]
pub(crate) struct MockCall {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

/// A running model.
pub(crate) struct MockModel {
    pub(crate) address: SocketAddr,
    /// What the agent reported as results of tools.
    pub(crate) results: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Shared {
    call: MockCall,
    results: Arc<Mutex<Vec<String>>>,
}

impl MockModel {
    pub(crate) fn start(call: MockCall) -> MockModel {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let results = Arc::<Mutex<Vec<String>>>::default();
        let shared = Shared { call, results: results.clone() };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let router = Router::new().route("/v1/chat/completions", post(chat)).with_state(shared);
                axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
            });
        });
        MockModel { address, results }
    }
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

async fn chat(State(shared): State<Shared>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let results: Vec<String> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].to_string())
        .collect();
    let has_tool = request["tools"]
        .as_array()
        .is_some_and(|tools| tools.iter().any(|tool| tool["function"]["name"] == shared.call.tool));
    let calls = has_tool && results.is_empty();
    shared.results.lock().unwrap().extend(results);
    let arguments = shared.call.arguments.to_string();
    let call = json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": shared.call.tool, "arguments": arguments}}]);
    if request["stream"] == true {
        let (delta, finish) = if calls {
            (json!({"role": "assistant", "tool_calls": call}), "tool_calls")
        } else {
            (json!({"role": "assistant", "content": LAST_WORDS}), "stop")
        };
        let text = format!("{}{}data: [DONE]\n\n", chunk(&delta, None), chunk(&json!({}), Some(finish)));
        return ([(CONTENT_TYPE, "text/event-stream")], text).into_response();
    }
    let (message, finish) = if calls {
        (json!({"role": "assistant", "content": null, "tool_calls": call}), "tool_calls")
    } else {
        (json!({"role": "assistant", "content": LAST_WORDS}), "stop")
    };
    let response = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mock",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    axum::Json(response).into_response()
}
