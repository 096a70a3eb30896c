//! An agent inside a web application. The application's routes and the endpoints for subscribers share one port:
//! `POST /jobs` starts a job, and a subscriber follows it.
//!
//! ```text
//! cargo run -p aaep-server --example embed_axum
//! ```

use std::error::Error;

use aaep::{Producer, Session};
use aaep_client::{ConnectOptions, Subscriber, SubscriberEvent};
use aaep_server::{Config, Server};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Runs the example.
#[tokio::main]
pub async fn main() -> Result<()> {
    run().await
}

/// Starts the server, follows one job as a subscriber, and stops the server.
pub async fn run() -> Result<()> {
    let config = Config { agent_id: "gardener".to_owned(), listen: "127.0.0.1:0".parse()?, ..Config::default() };
    let producer = Server::producer(&config);
    // The server checks the host and the origin of these requests too. Their authentication is up to the application.
    let routes = Router::new().route("/jobs", post(start_job)).with_state(producer.clone());
    let server = Server::new(config, producer).with(routes).start().await?;

    let mut subscriber =
        Subscriber::connect(&server.url(), ConnectOptions::new("example-subscriber", serde_json::from_str("{}")?))?;
    let mut job = None;
    let mut types = Vec::new();
    while let Some(event) = subscriber.recv().await {
        match event {
            // Subscribed: no event of a job that starts now is missed.
            SubscriberEvent::Accepted(_) => job = Some(post_job(&server.url(), "the roses").await?),
            SubscriberEvent::Event(event) => {
                println!("{}", event.type_name());
                assert_eq!(Some(event.envelope.session_id.as_str()), job.as_deref());
                types.push(event.type_name().to_owned());
                if event.core_type().is_some_and(|core_type| core_type.is_terminal()) {
                    subscriber.close("user_request").await;
                }
            }
            _ => {}
        }
    }
    types.retain(|name| name != "aaep:agent.state.changed");
    let expected = ["session.started", "progress.updated", "output.streaming", "session.completed"];
    assert_eq!(types, expected.map(|name| format!("aaep:agent.{name}")));

    server.stop("The application is shutting down.").await;
    Ok(())
}

/// `POST /jobs`: starts an agent session for the plants in the body and returns its id. The job runs on after the response.
async fn start_job(State(producer): State<Producer>, plants: String) -> (StatusCode, String) {
    match producer.session(format!("Watering {plants}.")).await {
        Ok(session) => {
            let id = session.id().to_string();
            tokio::spawn(async move {
                if let Err(error) = water(session, &plants).await {
                    eprintln!("the job failed: {error}");
                }
            });
            (StatusCode::ACCEPTED, id)
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// The work of the agent. A session that is dropped before its end is cancelled.
async fn water(session: Session, plants: &str) -> std::result::Result<(), aaep::Error> {
    session.report_progress(50, "Half of the water is used.").await?;
    session.output().await?.finish_with(&format!("I gave {plants} ten liters.")).await?;
    session.complete("The plants are watered.").await
}

/// Starts a job as any HTTP client does. Returns the id of its session.
async fn post_job(url: &str, plants: &str) -> Result<String> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let request = Request::post(format!("{url}/jobs")).body(Body::from(plants.to_owned()))?;
    let response = client.request(request).await?;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    let body = to_bytes(Body::new(response.into_body()), 1024).await?;
    Ok(String::from_utf8(body.to_vec())?)
}
