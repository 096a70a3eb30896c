//! How agents and subscribers connect to each server.

use std::net::{SocketAddr, TcpStream};

use crate::event::STARTED;
use crate::process::Contestant;
use crate::wire::{Framing, Inbox, PATIENCE, Scratch, TEXT, push_frame, write_all};

/// How agents are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentTransport {
    WebSocket,
    Http,
}

/// One user as a client of a server.
pub(crate) struct Identity<'a> {
    pub(crate) contestant: Contestant,
    pub(crate) address: SocketAddr,
    pub(crate) user: usize,
    pub(crate) token: &'a str,
}

/// A connection with what was read of the next message.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) inbox: Inbox,
}

impl Connection {
    fn open(address: SocketAddr, framing: Framing) -> Connection {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("cannot connect: {error}"));
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection { stream, inbox: Inbox::new(framing) }
    }

    /// Reads one message from the blocking connection. Returns its kind and text.
    fn receive(&mut self, scratch: &mut Scratch) -> (u16, String) {
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        let received =
            self.inbox.wait_for(&self.stream, scratch, |message| Some((message.kind, text(message.payload))));
        received.unwrap_or_else(|error| panic!("no response: {error}"))
    }
}

const REQUEST: &str = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"bench","capabilities":{"max_events_per_second":100000,"supports_confirmation_reply":true}}"#;

impl Identity<'_> {
    fn upgrade(&self, path: &str, scratch: &mut Scratch) -> Connection {
        // The response to the upgrade is HTTP without a body, what follows is not.
        let mut connection = Connection::open(self.address, Framing::Http);
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            self.token
        );
        write_all(&connection.stream, head.as_bytes());
        let (status, text) = connection.receive(scratch);
        assert_eq!(status, 101, "user {} cannot upgrade {path}: {text}", self.user);
        Connection { inbox: Inbox::new(Framing::WebSocket), ..connection }
    }

    /// Connects the subscriber.
    pub(crate) fn subscribe(&self, scratch: &mut Scratch) -> Connection {
        match self.contestant {
            Contestant::Axum => self.upgrade(&format!("/ws/{}", self.user), scratch),
            Contestant::Aaep => {
                let mut connection = self.upgrade("/aaep/v1/ws", scratch);
                let mut frame = Vec::new();
                push_frame(&mut frame, TEXT, REQUEST.as_bytes());
                write_all(&connection.stream, &frame);
                let (_, text) = connection.receive(scratch);
                assert!(text.contains("subscription.accepted"), "user {} cannot subscribe: {text}", self.user);
                connection
            }
        }
    }

    /// Connects an agent that uses requests, without a request.
    pub(crate) fn open(&self) -> Connection {
        Connection::open(self.address, Framing::Http)
    }

    /// Connects a subscriber over SSE. Returns the stream after its head.
    pub(crate) fn subscribe_over_sse(&self, scratch: &mut Scratch) -> TcpStream {
        let path = match self.contestant {
            Contestant::Axum => format!("/sse/{}", self.user),
            Contestant::Aaep => {
                let mut connection = self.open();
                let head = format!(
                    "POST /aaep/v1/subscriptions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
                     content-type: application/json\r\ncontent-length: {}\r\n\r\n{REQUEST}",
                    self.token,
                    REQUEST.len()
                );
                write_all(&connection.stream, head.as_bytes());
                let (status, text) = connection.receive(scratch);
                assert_eq!(status, 201, "user {} cannot subscribe: {text}", self.user);
                let id = text.split(r#""subscription_id":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap();
                format!("/aaep/v1/events?subscription_id={id}")
            }
        };
        let mut connection = self.open();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\naccept: text/event-stream\r\n\r\n",
            self.token
        );
        write_all(&connection.stream, head.as_bytes());
        // The head has no length, so it is a response without a body. Events follow after the first request only.
        let (status, text) = connection.receive(scratch);
        assert_eq!(status, 200, "user {} gets no stream: {text}", self.user);
        connection.stream
    }

    /// Connects the agent and starts its session.
    pub(crate) fn produce(&self, transport: AgentTransport, scratch: &mut Scratch) -> Connection {
        match (self.contestant, transport) {
            (Contestant::Axum, AgentTransport::WebSocket) => self.upgrade(&format!("/agent/{}", self.user), scratch),
            (Contestant::Axum, AgentTransport::Http) => self.open(),
            (Contestant::Aaep, AgentTransport::WebSocket) => {
                let connection = self.upgrade("/aaep/v1/agent/ws", scratch);
                let mut frame = Vec::new();
                push_frame(&mut frame, TEXT, STARTED.as_bytes());
                write_all(&connection.stream, &frame);
                connection
            }
            (Contestant::Aaep, AgentTransport::Http) => {
                let mut connection = self.open();
                self.post(&mut connection, STARTED, scratch);
                connection
            }
        }
    }

    /// Posts one event and waits for the response.
    pub(crate) fn post(&self, agent: &mut Connection, event: &str, scratch: &mut Scratch) {
        let mut request = self.post_head(event.len()).into_bytes();
        request.extend_from_slice(event.as_bytes());
        write_all(&agent.stream, &request);
        let (status, text) = agent.receive(scratch);
        assert_eq!(status, 200, "an event of user {} was refused: {text}", self.user);
    }

    /// Returns the head of a POST of events with this many bytes. It is alike for all servers.
    pub(crate) fn post_head(&self, length: usize) -> String {
        let path = match self.contestant {
            Contestant::Aaep => "/aaep/v1/agent/events".to_owned(),
            Contestant::Axum => format!("/events/{}", self.user),
        };
        let media_type = match self.contestant {
            Contestant::Aaep => "application/json",
            Contestant::Axum => "text/plain",
        };
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: {media_type}\r\n\
             content-length: {length}\r\n\r\n",
            self.token
        )
    }
}
