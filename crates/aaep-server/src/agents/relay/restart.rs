//! After a restart: an agent that comes back goes on with its sessions and its questions.

use aaep::CallDigest;
use aaep::id::SessionId;
use aaep::journal::SeenEvent;
use aaep::message::CancelledBy;

use super::super::ask;
use super::super::memory::Known;
use super::super::raw_event::CompletedEvent;
use super::super::reply::Reply;
use super::super::response::{AgentError, AgentResponse};
use super::{Name, Relay};

/// A session from before a restart that the agent can take up.
#[derive(Debug)]
pub(super) struct Left {
    id: SessionId,
    /// What the agent calls it; nothing for the one session of an agent that has no names for them.
    alias: Option<String>,
    /// What the event that began it is known by, if the agent gave it a name.
    began: Option<String>,
}

impl Relay {
    /// What a session is called in the records: whose it is, what the agent calls it, and what began it.
    pub(super) fn origin_of(&self, alias: Option<&str>, began: Option<&Name>) -> Option<String> {
        let home = self.home.as_ref()?;
        serde_json::to_string(&(home, alias, began.and_then(Name::fingerprint))).ok()
    }

    /// Takes up the session of this name from before a restart, if there is one.
    pub(super) async fn take_up(&mut self, name: Option<&str>) -> Result<(), Vec<AgentError>> {
        self.look_back().await;
        if self.left.is_empty() || self.find(name)?.is_some() {
            return Ok(());
        }
        let is_it = |left: &Left| left.alias.as_deref() == name || name == Some(left.id.as_str());
        let Some(at) = self.left.iter().position(is_it) else { return Ok(()) };
        let place = self.session_place()?;
        let left = self.left.remove(at);
        if let Some((session, unfinished)) = self.producer.adopt(&left.id).await {
            let key = self.open(session, left.alias, place);
            if let Some(open) = self.sessions.get_mut(&key) {
                open.go_on(unfinished);
            }
        }
        Ok(())
    }

    /// The agent starts a session. If it is the very event that began one before a restart, that one goes on. If it is
    /// another, the agent has begun anew, and what it had begun before is over.
    pub(super) async fn start_again(
        &mut self,
        alias: Option<&str>,
        name: &Name,
    ) -> Result<Option<String>, Vec<AgentError>> {
        self.look_back().await;
        let Some(at) = self.left.iter().position(|left| left.alias.as_deref() == alias) else { return Ok(None) };
        if self.left[at].began.is_some() && self.left[at].began == name.fingerprint() {
            self.take_up(alias).await?;
            return self.find(alias);
        }
        let left = self.left.remove(at);
        if let Some((session, _)) = self.producer.adopt(&left.id).await {
            // It may have ended at this moment.
            let _ = session.cancel(CancelledBy::Producer, "The agent began anew after a restart.").await;
        }
        Ok(None)
    }

    /// Takes up a question that was asked before a restart. Nothing, if there is none, or if its session has ended: that
    /// takes its answers with it, and the user is asked anew.
    pub(super) async fn come_back(
        &mut self,
        (told, id): (&CompletedEvent, &str),
        origin: &str,
    ) -> Result<Option<Reply>, Vec<AgentError>> {
        let Some((session, found)) = self.producer.find_question(origin).await else { return Ok(None) };
        let Some(open) = self.sessions.get_mut(session.as_str()) else { return Ok(None) };
        ask::resume(open, (told, id), found, &mut self.questions).map(Some)
    }

    /// What is known of an event from before the restart. Another event of the same name is a new one here: an agent that
    /// was restarted too may count from one again, and must not be silenced for it.
    pub(super) async fn find_before(&mut self, id: &str, content: CallDigest) -> Option<Known> {
        self.look_back().await;
        let heard = self.before.get(id).filter(|heard| heard.content == content.to_string())?;
        let (event_id, session_id) = (heard.event_id.clone(), heard.session_id.clone());
        Some(Known::Same(Reply::Now(AgentResponse::Published { event_id, session_id }.into())))
    }

    /// Notes the name of an event that was emitted, to be kept over a restart. Questions are found by their origin.
    pub(super) fn note(&mut self, name: &Name, reply: &Reply) {
        if let (Some(home), Some(content), true, Reply::Now(answer)) = (&self.home, name.content, name.given, reply)
            && let AgentResponse::Published { event_id, session_id } = &**answer
        {
            let (event_id, session_id) = (event_id.clone(), session_id.clone());
            self.unkept.push(SeenEvent { agent: home.clone(), event_id, content: content.to_string(), session_id });
        }
    }

    /// Keeps the names of the events so far, so that they are not emitted again if they are sent again after a restart.
    /// To be called after [`flush`](Relay::flush): what is not emitted yet must not count as such.
    pub(in super::super) async fn keep_names(&mut self) {
        if !self.unkept.is_empty() {
            self.producer.record_seen(std::mem::take(&mut self.unkept)).await;
        }
    }

    /// Looks once for what there is from before the restart: it does not become more.
    async fn look_back(&mut self) {
        let Some(home) = self.home.as_ref().filter(|_| !self.looked_back) else { return };
        self.looked_back = true;
        let heard = self.producer.seen_events(home).await;
        self.before = heard.into_iter().map(|heard| (heard.event_id.clone(), heard)).collect();
        for (id, origin) in self.producer.orphans().await {
            let Some(origin) = origin else { continue };
            let read = serde_json::from_str::<(String, Option<String>, Option<String>)>(&origin);
            if let Ok((whose, alias, began)) = read
                && whose == *home
            {
                self.left.push(Left { id, alias, began });
            }
        }
    }
}
