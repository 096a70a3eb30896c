//! The open sessions.

use std::collections::BTreeMap;

use super::EngineError;
use super::groups::GroupId;
use super::output_state::OutputState;
use super::session_state::SessionState;
use crate::id::{OutputId, SessionId};

/// The sessions that have started and not ended.
#[derive(Default)]
pub(super) struct Sessions {
    open: BTreeMap<SessionId, SessionState>,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn contains(&self, id: &SessionId) -> bool {
        self.open.contains_key(id)
    }

    pub(super) fn get(&self, id: &SessionId) -> Result<&SessionState, EngineError> {
        self.open.get(id).ok_or(EngineError::UnknownSession)
    }

    pub(super) fn get_mut(&mut self, id: &SessionId) -> Result<&mut SessionState, EngineError> {
        self.open.get_mut(id).ok_or(EngineError::UnknownSession)
    }

    pub(super) fn output_mut(
        &mut self,
        session: &SessionId,
        output: &OutputId,
    ) -> Result<&mut OutputState, EngineError> {
        self.get_mut(session)?.output_mut(output).ok_or(EngineError::UnknownOutput)
    }

    pub(super) fn insert(&mut self, session: SessionState) {
        self.open.insert(session.id().clone(), session);
    }

    pub(super) fn remove(&mut self, id: &SessionId) {
        self.open.remove(id);
    }

    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.open.keys().cloned().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SessionState> {
        self.open.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SessionState> {
        self.open.values_mut()
    }

    /// Lets a new group of subscriptions begin at the end of every output.
    pub(super) fn add_group(&mut self, group: GroupId) {
        self.iter_mut().for_each(|session| session.add_group(group));
    }

    pub(super) fn remove_group(&mut self, group: GroupId) {
        self.iter_mut().for_each(|session| session.remove_group(group));
    }
}
