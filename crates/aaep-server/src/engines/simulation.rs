//! A simulation of many users on one server: random agents, subscribers, delegates and hostile peers, on paused time. No event,
//! id or outcome of one user may reach another, and every question is decided by its own user or by its default.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aaep::id::{ReplyToken, SubscriptionId};
use aaep::message::{ConfirmationReply, Decision, Message, SubscriptionRequest};
use aaep::transport::{Outbound, ResumePolicy};
use aaep_keys::{Identity, Role, UserId};
use aaep_proto::message::{Capabilities, Payload};
use aaep_runtime::system_time;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::agents::{AgentRegistry, ResponseState, simulated_agent};
use crate::config::{Config, Limits};
use crate::context::{ServerContext, Subscribed};
use crate::engines::{EngineFactory, Engines};
use crate::metrics::Transport;
use crate::peer::Peer;

const USERS: [&str; 4] = ["ada", "ben", "cem", "dan"];
const SEEDS: u64 = 60;
const STEPS: usize = 120;

/// A small generator of numbers, so that a seed is a whole run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Everybody with credentials. A name says what they are for.
fn identities() -> Vec<Arc<Identity>> {
    let all = [Role::Subscribe, Role::Reply, Role::Produce];
    let mut identities: Vec<Identity> = USERS.iter().map(|user| Identity::new(*user, all)).collect();
    identities.push(Identity::new("service", [Role::Produce]).with_users("*".parse().unwrap()));
    identities.push(Identity::new("bank", [Role::Produce]).with_users("ada,ben".parse().unwrap()));
    identities
        .push(Identity::new("carer", [Role::Subscribe, Role::Reply]).with_users("ada,cem:subscribe".parse().unwrap()));
    identities.push(Identity::new("captioner", [Role::Subscribe]).with_users("ben,dan".parse().unwrap()));
    identities.push(Identity::new("stranger", all));
    identities.into_iter().map(Arc::new).collect()
}

struct SimulatedListener {
    subscribed: Subscribed,
    user: String,
}

struct Question {
    user: String,
    token: ReplyToken,
    /// Whether somebody who may answer it has accepted it.
    accepted: bool,
}

struct World {
    random: Random,
    context: Arc<ServerContext>,
    registry: Arc<AgentRegistry>,
    identities: Vec<Arc<Identity>>,
    listeners: Vec<SimulatedListener>,
    /// Sessions that agents have started: the agent, the agent's name of the session, and its user.
    sessions: Vec<(usize, String, String)>,
    questions: Vec<Question>,
    /// Pending outcomes, with the text of the question.
    outcomes: Vec<(String, ResponseState)>,
    /// Ids that somebody has seen, for those who guess.
    event_ids: Vec<String>,
    subscription_ids: Vec<SubscriptionId>,
    /// The principal and the user of each subscription.
    owners: BTreeMap<SubscriptionId, (String, String)>,
    count: usize,
    decided: usize,
    refused: BTreeSet<String>,
    _stop: watch::Sender<bool>,
}

impl World {
    async fn new(seed: u64) -> World {
        let limits = Limits { idle_user_seconds: 5, ..Limits::default() };
        let config = Config { limits: limits.clone(), ..Config::default() };
        let factory = EngineFactory::open(&config).unwrap();
        let engines = Engines::per_user(factory, &"local".parse().unwrap()).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let context = Arc::new(ServerContext::new(engines.clone(), limits, stopping).with_principals());
        let registry = AgentRegistry::new(engines, &config, &context.admission);
        World {
            random: Random(seed),
            context,
            registry,
            identities: identities(),
            listeners: Vec::new(),
            sessions: Vec::new(),
            questions: Vec::new(),
            outcomes: Vec::new(),
            event_ids: vec!["evt_0".to_owned()],
            subscription_ids: Vec::new(),
            owners: BTreeMap::new(),
            count: 0,
            decided: 0,
            refused: BTreeSet::new(),
            _stop: stop,
        }
    }

    fn peer(&self, identity: &Arc<Identity>) -> Peer {
        Peer { identity: identity.clone(), transport: Transport::Sse, slot: None, credentials: None }
    }

    async fn step(&mut self) {
        match self.random.below(10) {
            0 | 1 => self.subscribe().await,
            2 | 3 => self.start_session().await,
            4 => self.emit_text().await,
            5 => self.ask().await,
            6 => self.reply().await,
            7 => self.resume().await,
            8 => self.end_something().await,
            _ => tokio::time::sleep(Duration::from_millis(500 * self.random.below(20) as u64)).await,
        }
        self.receive().await;
        self.collect_outcomes();
    }

    async fn subscribe(&mut self) {
        let identity = self.random.pick(&self.identities.clone()).clone();
        let named = self.random.below(3) > 0;
        let user = if named { *self.random.pick(&["ada", "ben", "cem", "dan", "nobody"]) } else { &identity.principal };
        let mut capabilities = json!({"supports_confirmation_reply": true, "max_events_per_second": 1000});
        if named {
            capabilities["users"] = json!({"user": user});
        }
        let capabilities: Capabilities = serde_json::from_value(capabilities).unwrap();
        let request = SubscriptionRequest::new("simulated", capabilities);
        let policy = *self.random.pick(&[ResumePolicy::Resumable, ResumePolicy::Connection]);
        let (peer, id): (Peer, UserId) = (self.peer(&identity), user.parse().unwrap());
        match self.context.admit(&peer, request, policy).await {
            Ok(subscribed) => {
                assert!(identity.may_for(Role::Subscribe, &id), "{} subscribed for {user}", identity.principal);
                assert_eq!(subscribed.engine.user(), &id);
                let id = subscribed.link.id().clone();
                self.owners.insert(id.clone(), (identity.principal.clone(), user.to_owned()));
                self.subscription_ids.push(id);
                self.listeners.push(SimulatedListener { subscribed, user: user.to_owned() });
            }
            Err(rejection) => {
                assert!(!identity.may_for(Role::Subscribe, &id), "{}: {rejection}", identity.principal);
                if identity.may(Role::Subscribe) {
                    self.refused.insert(rejection.message);
                }
            }
        }
    }

    async fn send(&self, agent: usize, event: &Value) -> ResponseState {
        simulated_agent(&self.registry, &self.identities[agent], &event.to_string()).await
    }

    async fn start_session(&mut self) {
        let agent = self.random.below(self.identities.len());
        let user = *self.random.pick(&["ada", "ben", "cem", "dan", "nobody"]);
        self.count += 1;
        let name = format!("s{}", self.count);
        let event = json!({"type": "session.started", "session_id": name, "requested_by": format!("user:{user}"),
            "summary_normal": format!("secret-of-{user} begins.")});
        let identity = self.identities[agent].clone();
        let may = identity.may_for(Role::Produce, &user.parse().unwrap());
        let ResponseState::Ready(response) = self.send(agent, &event).await else { panic!("it is no question") };
        assert_eq!(response.is_published(), may, "{} for {user}: {}", identity.principal, response.to_json());
        if may {
            self.sessions.push((agent, name, user.to_owned()));
        } else if identity.may(Role::Produce) {
            self.refused.insert(response.to_json()["problems"][0]["message"].to_string());
        }
    }

    async fn emit_text(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let (agent, name, user) = self.random.pick(&self.sessions.clone()).clone();
        // Another agent that names the session writes into one of its own, or is refused.
        let agent = if self.random.below(4) == 0 { self.random.below(self.identities.len()) } else { agent };
        let owner = self.sessions.iter().any(|(of, session, _)| (*of, session) == (agent, &name));
        if owner {
            let text = json!({"type": "output.streaming", "session_id": name, "chunk": format!("secret-of-{user}. ")});
            self.send(agent, &text).await;
        }
    }

    async fn ask(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let (agent, name, user) = self.random.pick(&self.sessions.clone()).clone();
        self.count += 1;
        let action = format!("secret-of-{user} question {}", self.count);
        let event = json!({"type": "awaiting.confirmation", "session_id": name, "event_id": format!("q{}", self.count),
            "action": action, "consequence": "Something.", "timeout_seconds": 30, "default_decision": "reject"});
        let state = self.send(agent, &event).await;
        self.outcomes.push((action, state));
    }

    /// Somebody replies to a question that they may have seen, by a subscription that may be theirs.
    async fn reply(&mut self) {
        if self.questions.is_empty() || self.subscription_ids.is_empty() {
            return;
        }
        let identity = self.random.pick(&self.identities.clone()).clone();
        let peer = self.peer(&identity);
        let subscription_id = self.random.pick(&self.subscription_ids).clone();
        let at = self.random.below(self.questions.len());
        let question = &self.questions[at];
        let user: UserId = question.user.parse().unwrap();
        let belongs = self.owners[&subscription_id] == (identity.principal.clone(), question.user.clone());
        let reply = ConfirmationReply {
            reply_token: question.token.clone(),
            decision: Decision::Accept,
            subscription_id,
            timestamp: system_time(),
            decided_by: None,
            decision_rationale: None,
            modified_action: None,
            correlation_id: None,
        };
        // An error means that the peer may not reply at all.
        let _ = self.context.post_message(&peer, Message::ConfirmationReply(Box::new(reply))).await;
        if belongs && identity.may_for(Role::Reply, &user) {
            self.questions[at].accepted = true;
        }
    }

    /// Somebody resumes a subscription that may be theirs, after an event that may be another user's.
    async fn resume(&mut self) {
        if self.subscription_ids.is_empty() {
            return;
        }
        let identity = self.random.pick(&self.identities.clone()).clone();
        let id = self.random.pick(&self.subscription_ids).clone();
        let last = self.random.pick(&self.event_ids).clone();
        let Some(subscribed) = self.context.resume(&self.peer(&identity), &id, Some(&last)).await else { return };
        let (principal, user) = self.owners[&id].clone();
        assert_eq!(principal, identity.principal, "it is the subscription of another principal");
        assert_eq!(subscribed.engine.user().as_str(), user);
        // The link before is replaced.
        self.listeners.retain(|listener| *listener.subscribed.link.id() != id);
        self.listeners.push(SimulatedListener { subscribed, user });
    }

    async fn end_something(&mut self) {
        if self.random.below(2) == 0 && !self.listeners.is_empty() {
            let at = self.random.below(self.listeners.len());
            drop(self.listeners.remove(at));
        } else if !self.sessions.is_empty() {
            let at = self.random.below(self.sessions.len());
            let (agent, name, user) = self.sessions.remove(at);
            let done = json!({"type": "session.completed", "session_id": name,
                "summary_normal": format!("secret-of-{user} ends.")});
            self.send(agent, &done).await;
        }
    }

    /// Receives everything that waits, and checks whom it is about.
    async fn receive(&mut self) {
        // Paused time passes only when every task is idle, so everything was delivered by then.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut batch = Vec::new();
        for SimulatedListener { subscribed, user } in &mut self.listeners {
            while tokio::time::timeout(Duration::ZERO, subscribed.link.recv_many(&mut batch, 64))
                .await
                .is_ok_and(|n| n > 0)
            {}
            for item in batch.drain(..) {
                let Outbound::Event(frame) = item else { continue };
                let text = String::from_utf8(frame.json().to_vec()).unwrap();
                for other in USERS.iter().filter(|other| **other != user.as_str()) {
                    assert!(!text.contains(&format!("secret-of-{other}")), "{user} received of {other}: {text}");
                }
                self.event_ids.push(frame.event().envelope.event_id.to_string());
                if let Payload::AwaitingConfirmation(question) = &frame.event().payload
                    && !self.questions.iter().any(|known| known.token == question.reply_token)
                {
                    let (user, token) = (user.clone(), question.reply_token.clone());
                    self.questions.push(Question { user, token, accepted: false });
                }
            }
        }
    }

    fn collect_outcomes(&mut self) {
        let mut open = Vec::new();
        for (action, state) in std::mem::take(&mut self.outcomes) {
            match state.refresh() {
                ResponseState::Ready(response) => {
                    let response = response.to_json();
                    if response["type"] == "refused" {
                        continue;
                    }
                    self.decided += 1;
                    let user = action.strip_prefix("secret-of-").unwrap().split(' ').next().unwrap();
                    let accepted = self.questions.iter().any(|question| question.user == user && question.accepted);
                    assert!(response["verdict"] != "accepted" || accepted, "nobody of {user} accepted: {response}");
                }
                pending => open.push((action, pending)),
            }
        }
        self.outcomes = open;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_one_user_reaches_another() {
    let (mut decided, mut accepted, mut received) = (0, 0, 0);
    let mut refused = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut world = World::new(seed).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        decided += world.decided;
        accepted += world.questions.iter().filter(|question| question.accepted).count();
        received += world.event_ids.len();
        world.refused.iter().for_each(|text| *refused.entry(text.clone()).or_insert(0) += 1);
    }
    // The simulation is only worth something if these things happen in it.
    assert!(decided > 50 && accepted > 10 && received > 1000, "{decided} {accepted} {received}");
    assert_eq!(refused.len(), 2, "one text for subscribers and one for agents, whoever they name: {refused:#?}");
}
