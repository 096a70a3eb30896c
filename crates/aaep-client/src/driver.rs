//! The one task of a subscriber. It owns the state machine; it never waits for a network, so that a reply goes out at
//! once whatever the producer does.

use std::sync::Arc;
use std::time::Duration;

use aaep_proto::id::ReplyToken;
use aaep_proto::message::{Capabilities, CloseReason, Message};
use aaep_proto::subscriber::{
    Cx, DisconnectReason, ManifestCheck, PromptAnswer, PromptId, PromptReplyError, Subscriber as Machine,
    SubscriberEvent as CoreEvent, SubscriberOutput, SubscriberStats,
};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::clock::{Clock, DeadlineTimer};
use crate::connect::{Connected, Connector};
use crate::queue::{Feed, SubscriberEvent};
use crate::transport::{Connection, Incoming, Outgoing, token_of};

/// How long a connection that is no longer needed may take to send what waits and to say goodbye.
const LINGER: Duration = Duration::from_secs(5);

/// What the user's program wants.
pub(crate) enum Command {
    Reply(PromptId, PromptAnswer, oneshot::Sender<Result<(), PromptReplyError>>),
    Renegotiate(Box<Capabilities>, oneshot::Sender<bool>),
    Close(CloseReason),
    Counts(oneshot::Sender<SubscriberStats>),
}

pub(crate) struct Driver {
    machine: Machine,
    clock: Clock,
    opener: Arc<Connector>,
    feed: Feed,
    wire: Option<Connection>,
    transport: &'static str,
    opening: JoinSet<Result<Connected, DisconnectReason>>,
    checking: JoinSet<ManifestCheck>,
    /// The accepted message whose manifest is being checked.
    accepted: Option<Bytes>,
    /// Connections that are no longer used, and replies that they could not deliver.
    retired: JoinSet<()>,
    late: (mpsc::Sender<ReplyToken>, mpsc::Receiver<ReplyToken>),
}

impl Driver {
    pub(crate) fn new(machine: Machine, opener: Arc<Connector>, feed: Feed) -> Driver {
        Driver {
            machine,
            clock: Clock::new(),
            opener,
            feed,
            wire: None,
            transport: "",
            opening: JoinSet::new(),
            checking: JoinSet::new(),
            accepted: None,
            retired: JoinSet::new(),
            late: mpsc::channel(16),
        }
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut alarm = DeadlineTimer::new();
        self.act(|machine, cx| machine.start(cx));
        while !self.machine.is_ended() {
            alarm.set(&self.clock, self.machine.next_deadline());
            let room = self.feed.has_room();
            tokio::select! {
                biased;
                command = commands.recv() => self.obey(command),
                () = alarm.ring() => self.on_time(room),
                Some(opened) = self.opening.join_next() => self.opened(opened.unwrap_or_else(|_| Err(broken()))),
                Some(check) = self.checking.join_next() => self.checked(check.unwrap_or_default()),
                Some(token) = self.late.1.recv() => self.act(|machine, cx| machine.handle_send_failure(cx, &token)),
                incoming = next(&mut self.wire), if room && self.accepted.is_none() => self.hear(incoming),
                () = self.feed.room(), if !room => {}
            }
        }
        self.retire();
        // What was said last, the close above all, still goes out.
        let _ = tokio::time::timeout(LINGER, async { while self.retired.join_next().await.is_some() {} }).await;
    }

    /// One change, then drain.
    fn act<T>(&mut self, input: impl FnOnce(&mut Machine, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = input(&mut self.machine, &mut Cx { now, entropy: &mut self.clock });
        loop {
            let output = match self.machine.poll_output() {
                SubscriberOutput::Idle(_) => return result,
                output => output,
            };
            if let Some(unsent) = self.carry_out(output) {
                let now = self.clock.now();
                let cx = &mut Cx { now, entropy: &mut self.clock };
                self.machine.disconnected(cx, DisconnectReason::Broken("it takes nothing any more".to_owned()));
                if let Some(token) = token_of(&unsent) {
                    self.machine.handle_send_failure(cx, token);
                }
                self.retire();
            }
        }
    }

    /// Does what the machine says; answers a message that could not even be handed to the transport.
    fn carry_out(&mut self, output: SubscriberOutput) -> Option<Box<Message>> {
        let heard = match output {
            SubscriberOutput::Connect(resume) => {
                self.retire();
                self.opening.spawn(self.opener.clone().open(resume));
                return None;
            }
            SubscriberOutput::Send(message) => {
                let Some(wire) = &self.wire else { return Some(message) };
                return match wire.outgoing.try_send(Outgoing::Message(message)) {
                    Ok(()) => None,
                    Err(error) => match error.into_inner() {
                        Outgoing::Message(message) => Some(message),
                        Outgoing::Probe => None,
                    },
                };
            }
            SubscriberOutput::Probe => {
                // A queue that is full says enough.
                let _ = self.wire.as_ref().map(|wire| wire.outgoing.try_send(Outgoing::Probe));
                return None;
            }
            SubscriberOutput::Disconnect => {
                self.retire();
                return None;
            }
            // The messages were handed on as they came.
            SubscriberOutput::Event(
                CoreEvent::Event(_)
                | CoreEvent::PromptOpened(..)
                | CoreEvent::PromptMoved(..)
                | CoreEvent::PromptEnded(..),
            ) if self.feed.raw => return None,
            SubscriberOutput::Event(event) => event.map_time(|at| self.clock.instant(at)),
            SubscriberOutput::Idle(_) => return None,
        };
        self.feed.push(heard);
        None
    }

    /// Lets the connection go: it sends what waits and ends by itself. Replies that it cannot deliver are told.
    fn retire(&mut self) {
        self.opening = JoinSet::new();
        self.checking = JoinSet::new();
        self.accepted = None;
        while self.retired.try_join_next().is_some() {}
        let Some(wire) = self.wire.take() else { return };
        let late = self.late.0.clone();
        // Longer than anything that is under way may take, so that its end is known.
        let timeout = self.opener.timeout() + Duration::from_secs(1);
        self.retired.spawn(async move {
            let Connection { mut incoming, outgoing, tasks, .. } = wire;
            drop(outgoing);
            let draining = async {
                while let Some(heard) = incoming.recv().await {
                    if let Incoming::Undelivered(token) = heard {
                        // The task has ended if this fails.
                        let _ = late.send(token).await;
                    }
                }
            };
            let _ = tokio::time::timeout(timeout, draining).await;
            drop(tasks);
        });
    }

    fn obey(&mut self, command: Option<Command>) {
        match command {
            // Who waited for the answer may have gone.
            Some(Command::Reply(id, answer, done)) => {
                let result = self.act(|machine, cx| machine.reply(cx, id, answer));
                let _ = done.send(result);
            }
            Some(Command::Renegotiate(changes, done)) => {
                let sent = self.act(|machine, cx| machine.renegotiate(cx, &changes));
                let _ = done.send(sent);
            }
            Some(Command::Counts(done)) => drop(done.send(self.machine.stats())),
            Some(Command::Close(reason)) => self.act(|machine, cx| machine.close(cx, reason)),
            // Nobody is left who could listen or answer.
            None => self.act(|machine, cx| machine.close(cx, CloseReason::SubscriberShutdown)),
        }
    }

    fn on_time(&mut self, room: bool) {
        // If we do not read, silence is not the producer's; and some connections tell by themselves when they are gone.
        let quiet = !room || self.wire.as_ref().is_some_and(|wire| !wire.gives_signs_of_life);
        self.act(|machine, cx| {
            if quiet {
                machine.handle_activity(cx);
            }
            machine.handle_timeout(cx);
        });
    }

    fn opened(&mut self, opened: Result<Connected, DisconnectReason>) {
        match opened {
            Err(loss) => self.act(|machine, cx| machine.disconnected(cx, loss)),
            Ok(Connected { wire, transport }) => {
                let (handshake, alive, resumed) = (wire.handshake, wire.gives_signs_of_life, wire.resumed);
                self.wire = Some(wire);
                self.transport = transport;
                self.act(|machine, cx| {
                    machine.set_transport(handshake, alive);
                    machine.connected(cx, resumed);
                });
            }
        }
    }

    fn hear(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Alive => self.act(|machine, cx| machine.handle_activity(cx)),
            Incoming::Unreadable(why) => self.act(|machine, cx| machine.handle_unreadable(cx, &why)),
            Incoming::Undelivered(token) => self.act(|machine, cx| machine.handle_send_failure(cx, &token)),
            Incoming::Lost(loss) => {
                self.retire();
                self.act(|machine, cx| machine.disconnected(cx, loss));
            }
            Incoming::Message(bytes) => {
                if self.feed.raw {
                    self.feed.push(SubscriberEvent::Message(bytes.clone()));
                }
                if self.machine.is_requesting() && self.starts_check(&bytes) {
                    self.accepted = Some(bytes);
                } else {
                    self.act(|machine, cx| machine.handle_bytes(cx, &bytes));
                }
            }
        }
    }

    /// Whether a message offers terms by a producer whose manifest has to be checked first. Then that has begun.
    fn starts_check(&mut self, bytes: &Bytes) -> bool {
        let Ok(Message::SubscriptionAccepted(accepted)) = Message::parse(bytes) else { return false };
        if !self.opener.has_to_check(&accepted) {
            self.act(|machine, cx| machine.manifest_checked(cx, ManifestCheck::Unsigned));
            return false;
        }
        let now = self.clock.now().wall;
        self.checking.spawn(self.opener.clone().check(accepted, self.transport, now));
        true
    }

    fn checked(&mut self, check: ManifestCheck) {
        let Some(bytes) = self.accepted.take() else { return };
        self.act(|machine, cx| {
            machine.manifest_checked(cx, check);
            machine.handle_bytes(cx, &bytes);
        });
    }
}

fn broken() -> DisconnectReason {
    DisconnectReason::Broken("the connection could not be made".to_owned())
}

/// What the connection says next; nothing as long as there is none.
async fn next(wire: &mut Option<Connection>) -> Incoming {
    match wire {
        Some(wire) => wire.incoming.recv().await.unwrap_or_else(|| Incoming::Lost(broken())),
        None => std::future::pending().await,
    }
}
