//! The scenes of the demo, which the page can start.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::http::HttpProblem;

const UNKNOWN: HttpProblem = HttpProblem::new(StatusCode::NOT_FOUND, "There is no such scene. See /demo/scenes.");
const BUSY: HttpProblem =
    HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "Too many scenes wait to be played. Try again later.");

/// Scenes that the web page can list and start.
///
/// ```
/// let (starts, mut requested) = tokio::sync::mpsc::channel(4);
/// let scenes = aaep_server::Scenes::new(vec![("banking".to_owned(), "Moves money.".to_owned())], starts);
/// assert!(requested.try_recv().is_err(), "nobody asked for a scene yet");
/// # drop(scenes);
/// ```
#[derive(Clone, Debug)]
pub struct Scenes {
    /// Their names and what happens in them.
    known: Vec<(String, String)>,
    starts: mpsc::Sender<String>,
}

impl Scenes {
    /// Creates the list of scenes. The name of each scene that is to be played is sent to `starts`.
    pub fn new(known: Vec<(String, String)>, starts: mpsc::Sender<String>) -> Scenes {
        Scenes { known, starts }
    }

    fn list(&self) -> Value {
        let scene = |(name, description): &(String, String)| json!({"name": name, "description": description});
        json!({"scenes": self.known.iter().map(scene).collect::<Vec<_>>()})
    }

    fn start(&self, name: &str) -> Result<Response, HttpProblem> {
        if !self.known.iter().any(|(known, _)| known == name) {
            return Err(UNKNOWN);
        }
        self.starts.try_send(name.to_owned()).map_err(|_| BUSY)?;
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Returns the endpoints: `GET /demo/scenes` and `POST /demo/scenes/NAME`.
    pub(crate) fn router(self) -> Router {
        let (listed, started) = (Arc::new(self.clone()), Arc::new(self));
        let list = async move || {
            let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (kind, listed.list().to_string())
        };
        let start = async move |Path(name): Path<String>| started.start(&name);
        Router::new().route("/demo/scenes", get(list)).route("/demo/scenes/{name}", post(start))
    }
}
