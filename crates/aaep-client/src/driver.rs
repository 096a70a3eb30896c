//! The background task of a subscriber. It owns the state machine and never waits for the network, so that a reply is
//! sent at once whatever the producer does.

use std::sync::Arc;
use std::time::Duration;

use aaep_proto::binding::TransportKind;
use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::message::{Capabilities, CloseReason, Message};
use aaep_proto::subscriber::{
    CancelRequestError, Cx, DisconnectReason, ManifestCheck, PromptAnswer, PromptId, PromptReplyError,
    Subscriber as Machine, SubscriberEffect, SubscriberEvent as CoreEvent, SubscriberStats,
};
use aaep_runtime::{Clock, DeadlineTimer, SystemEntropy};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::connect::Connector;
use crate::queue::{EventSender, SubscriberEvent};
use crate::transport::{TransportCommand, TransportConnection, TransportEvent, reply_token};

/// How long the task waits for its last connections to send what waits and to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Added to the timeout of a single step, so that a retired connection has reported the end of every step.
const RETIRE_MARGIN: Duration = Duration::from_secs(1);

/// Undelivered replies of retired connections that wait to be handled.
const MAX_WAITING_FAILURES: usize = 16;

/// What the program asks the task to do.
pub(crate) enum DriverCommand {
    Reply { prompt: PromptId, answer: PromptAnswer, done: oneshot::Sender<Result<(), PromptReplyError>> },
    Renegotiate { changes: Box<Capabilities>, done: oneshot::Sender<bool> },
    Cancel { session: SessionId, reason: Option<String>, done: oneshot::Sender<Result<(), CancelRequestError>> },
    Stats { done: oneshot::Sender<SubscriberStats> },
    Close(CloseReason),
}

pub(crate) struct Driver {
    machine: Machine,
    clock: Clock,
    entropy: SystemEntropy,
    connector: Arc<Connector>,
    events: EventSender,
    connection: Option<TransportConnection>,
    connecting: JoinSet<Result<TransportConnection, DisconnectReason>>,
    checking: JoinSet<ManifestCheck>,
    /// The accepted message whose manifest is being checked.
    unchecked: Option<Bytes>,
    /// Connections that are no longer used and that send what waits.
    retired: JoinSet<()>,
    /// Replies that retired connections could not deliver.
    failures: (mpsc::Sender<ReplyToken>, mpsc::Receiver<ReplyToken>),
}

impl Driver {
    pub(crate) fn new(machine: Machine, connector: Arc<Connector>, events: EventSender) -> Driver {
        Driver {
            machine,
            clock: Clock::new(),
            entropy: SystemEntropy::default(),
            connector,
            events,
            connection: None,
            connecting: JoinSet::new(),
            checking: JoinSet::new(),
            unchecked: None,
            retired: JoinSet::new(),
            failures: mpsc::channel(MAX_WAITING_FAILURES),
        }
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<DriverCommand>) {
        let mut timer = DeadlineTimer::new();
        self.update(|machine, cx| machine.start(cx));
        while !self.machine.is_ended() {
            timer.set(&self.clock, self.machine.next_deadline());
            let has_capacity = self.events.has_capacity();
            tokio::select! {
                biased;
                command = commands.recv() => self.handle_command(command),
                () = timer.expired() => self.handle_timeout(has_capacity),
                Some(result) = self.connecting.join_next() => {
                    self.handle_connect(result.unwrap_or_else(|_| Err(connect_failed())));
                }
                Some(check) = self.checking.join_next() => self.handle_check(check.unwrap_or_default()),
                Some(token) = self.failures.1.recv() => {
                    self.update(|machine, cx| machine.handle_send_failure(cx, &token));
                }
                event = next_event(&mut self.connection), if has_capacity && self.unchecked.is_none() => {
                    self.handle_event(event);
                }
                () = self.events.wait_for_capacity(), if !has_capacity => {}
            }
        }
        self.retire_connection();
        // The last messages, above all the close, are still sent.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, async { while self.retired.join_next().await.is_some() {} }).await;
    }

    /// Passes one input to the state machine and carries out all of its effects.
    fn update<T>(&mut self, input: impl FnOnce(&mut Machine, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = input(&mut self.machine, &mut Cx { now, entropy: &mut self.entropy });
        loop {
            let effect = match self.machine.poll_effect() {
                SubscriberEffect::Idle(_) => return result,
                effect => effect,
            };
            if let Some(unsent) = self.carry_out(effect) {
                let now = self.clock.now();
                let cx = &mut Cx { now, entropy: &mut self.entropy };
                let why = "the producer does not accept messages any more".to_owned();
                self.machine.disconnected(cx, DisconnectReason::Broken(why));
                if let Some(token) = reply_token(&unsent) {
                    self.machine.handle_send_failure(cx, token);
                }
                self.retire_connection();
            }
        }
    }

    /// Carries out one effect. Returns the message if it could not be passed to the transport.
    fn carry_out(&mut self, effect: SubscriberEffect) -> Option<Box<Message>> {
        match effect {
            SubscriberEffect::Connect(resume) => {
                self.retire_connection();
                self.connecting.spawn(self.connector.clone().open(resume));
            }
            SubscriberEffect::Send(message) => {
                let Some(connection) = &self.connection else { return Some(message) };
                if let Err(error) = connection.commands.try_send(TransportCommand::Send(message))
                    && let TransportCommand::Send(message) = error.into_inner()
                {
                    return Some(message);
                }
            }
            SubscriberEffect::Probe => {
                // A full queue is a sign of trouble by itself.
                let _ = self.connection.as_ref().map(|it| it.commands.try_send(TransportCommand::Probe));
            }
            SubscriberEffect::Disconnect => self.retire_connection(),
            // In raw mode the message was reported as it was received.
            SubscriberEffect::Event(
                CoreEvent::Event(_)
                | CoreEvent::PromptOpened(..)
                | CoreEvent::PromptMoved(..)
                | CoreEvent::PromptEnded(..),
            ) if self.events.is_raw() => {}
            SubscriberEffect::Event(event) => self.events.send(event.map_time(|at| self.clock.instant(at))),
            SubscriberEffect::Idle(_) => {}
        }
        None
    }

    /// Stops using the connection. It sends what waits and closes by itself; replies that it cannot deliver are still
    /// reported.
    fn retire_connection(&mut self) {
        self.connecting = JoinSet::new();
        self.checking = JoinSet::new();
        self.unchecked = None;
        while self.retired.try_join_next().is_some() {}
        let Some(connection) = self.connection.take() else { return };
        let failures = self.failures.0.clone();
        let timeout = self.connector.timeout() + RETIRE_MARGIN;
        self.retired.spawn(async move {
            let TransportConnection { mut events, commands, tasks, .. } = connection;
            drop(commands);
            let draining = async {
                while let Some(event) = events.recv().await {
                    if let TransportEvent::Undelivered(token) = event {
                        // Fails if the driver has ended.
                        let _ = failures.send(token).await;
                    }
                }
            };
            let _ = tokio::time::timeout(timeout, draining).await;
            drop(tasks);
        });
    }

    fn handle_command(&mut self, command: Option<DriverCommand>) {
        match command {
            // Sending the result fails if the caller does not wait for it any more.
            Some(DriverCommand::Reply { prompt, answer, done }) => {
                let result = self.update(|machine, cx| machine.reply(cx, prompt, answer));
                let _ = done.send(result);
            }
            Some(DriverCommand::Renegotiate { changes, done }) => {
                let sent = self.update(|machine, cx| machine.renegotiate(cx, &changes));
                let _ = done.send(sent);
            }
            Some(DriverCommand::Cancel { session, reason, done }) => {
                let result = self.update(|machine, cx| machine.request_cancel(cx, &session, reason));
                let _ = done.send(result);
            }
            Some(DriverCommand::Stats { done }) => drop(done.send(self.machine.stats())),
            Some(DriverCommand::Close(reason)) => self.update(|machine, cx| machine.close(cx, reason)),
            // Every handle was dropped.
            None => self.update(|machine, cx| machine.close(cx, CloseReason::SubscriberShutdown)),
        }
    }

    fn handle_timeout(&mut self, has_capacity: bool) {
        // While nothing is read, silence is not the producer's fault; and transports without keepalive messages report
        // a lost connection themselves.
        let ignore_silence = !has_capacity || self.connection.as_ref().is_some_and(|it| !it.has_keepalive);
        self.update(|machine, cx| {
            if ignore_silence {
                machine.handle_activity(cx);
            }
            machine.handle_timeout(cx);
        });
    }

    fn handle_connect(&mut self, result: Result<TransportConnection, DisconnectReason>) {
        match result {
            Err(reason) => self.update(|machine, cx| machine.disconnected(cx, reason)),
            Ok(connection) => {
                let (handshake, has_keepalive) = (connection.handshake, connection.has_keepalive);
                let resumed = connection.resumed;
                self.connection = Some(connection);
                self.update(|machine, cx| {
                    machine.set_transport(handshake, has_keepalive);
                    machine.connected(cx, resumed);
                });
            }
        }
    }

    fn handle_event(&mut self, event: TransportEvent) {
        match event {
            TransportEvent::Alive => self.update(|machine, cx| machine.handle_activity(cx)),
            TransportEvent::Unreadable(why) => self.update(|machine, cx| machine.handle_unreadable(cx, &why)),
            TransportEvent::Undelivered(token) => self.update(|machine, cx| machine.handle_send_failure(cx, &token)),
            TransportEvent::Disconnected(reason) => {
                self.retire_connection();
                self.update(|machine, cx| machine.disconnected(cx, reason));
            }
            TransportEvent::Message(bytes) => {
                if self.events.is_raw() {
                    self.events.send(SubscriberEvent::Message(bytes.clone()));
                }
                if self.machine.is_requesting() && self.start_check(&bytes) {
                    self.unchecked = Some(bytes);
                } else {
                    self.update(|machine, cx| machine.handle_bytes(cx, &bytes));
                }
            }
        }
    }

    /// Starts to check the manifest of the producer if the message accepts the subscription and the manifest has to be
    /// checked first. Returns whether a check was started.
    fn start_check(&mut self, bytes: &Bytes) -> bool {
        let Ok(Message::SubscriptionAccepted(accepted)) = Message::parse(bytes) else { return false };
        if !self.connector.requires_check(&accepted) {
            self.update(|machine, cx| machine.manifest_checked(cx, ManifestCheck::Unsigned));
            return false;
        }
        let transport = self.connection.as_ref().map_or(TransportKind::Sse, |it| it.transport);
        let now = self.clock.now().wall;
        self.checking.spawn(self.connector.clone().check(accepted, transport, now));
        true
    }

    fn handle_check(&mut self, check: ManifestCheck) {
        let Some(bytes) = self.unchecked.take() else { return };
        self.update(|machine, cx| {
            machine.manifest_checked(cx, check);
            machine.handle_bytes(cx, &bytes);
        });
    }
}

fn connect_failed() -> DisconnectReason {
    DisconnectReason::Broken("the connection could not be opened".to_owned())
}

/// Returns the next event of the connection. Waits forever if there is none.
async fn next_event(connection: &mut Option<TransportConnection>) -> TransportEvent {
    match connection {
        Some(connection) => {
            let event = connection.events.recv().await;
            event.unwrap_or_else(|| TransportEvent::Disconnected(connect_failed()))
        }
        None => std::future::pending().await,
    }
}
