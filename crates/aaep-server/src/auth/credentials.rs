//! Accepted credentials: reloaded when their files change, and checked again while a connection lasts. Revoking a
//! credential needs no restart and closes the connections that use it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use aaep_keys::{Identity, KeySet, NamedUsers, Role, StaticTokens, TokenVerifier};
use aaep_runtime::system_time;
use tokio::sync::watch;

use super::reload::ReloadedFile;
use super::tls::{ClientAuthorities, ClientCertificate};
use super::verified::VerifiedTokens;
use crate::config::{Config, ConfigError};

/// How often an expiry is checked: the clock may be set, and the machine may have slept.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// How often the client certificate of an open connection is checked for expiry.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// The credentials that a server accepts.
#[derive(Debug)]
pub(crate) struct Credentials {
    tokens: Option<ReloadedFile<StaticTokens>>,
    signed: Option<ReloadedFile<TokenVerifier>>,
    clients: Option<Arc<ClientAuthorities>>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    verified: VerifiedTokens,
}

impl Credentials {
    pub(crate) fn load(config: &Config) -> Result<Credentials, ConfigError> {
        let auth = config.auth.clone();
        let tokens = auth.tokens.as_ref().map(|path| {
            ReloadedFile::load("auth.tokens", path, |path| StaticTokens::load(path).map_err(|e| e.to_string()))
        });
        let signed = auth.jwks.clone().map(|path| {
            ReloadedFile::load("auth.jwks", &path, move |path| {
                let keys = KeySet::load(path).map_err(|e| e.to_string())?;
                Ok(TokenVerifier::new(keys, &auth.issuer, &auth.audience))
            })
        });
        let client_ca = config.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        let clients = client_ca.map(|path| ClientAuthorities::load(path));
        Ok(Credentials {
            tokens: tokens.transpose()?,
            signed: signed.transpose()?,
            clients: clients.transpose()?.map(Arc::new),
            changes: watch::Sender::new(0),
            verified: VerifiedTokens::default(),
        })
    }

    /// Logs tokens of agents that name no user: nobody but their own subject receives what they produce.
    pub(crate) fn warn_of_agents_without_users(&self) {
        let Some(tokens) = &self.tokens else { return };
        for identity in tokens.get().identities() {
            let is_agent = identity.may(Role::Produce) && !identity.may(Role::Subscribe);
            if is_agent && identity.users == NamedUsers::Nobody {
                let principal = &identity.principal;
                tracing::warn!(
                    principal,
                    "this token of an agent names no users, so no user receives its sessions: add users=NAME or users=* to its line"
                );
            }
        }
    }

    /// Returns whether no credentials are required.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.signed.is_none() && self.clients.is_none()
    }

    /// Returns the authorities of client certificates, if these are required.
    #[cfg(feature = "tls")]
    pub(crate) fn clients(&self) -> Option<Arc<ClientAuthorities>> {
        self.clients.clone()
    }

    /// Reloads changed files. Open connections are then checked again.
    pub(crate) fn refresh(&self) {
        let changed = [
            self.tokens.as_ref().is_some_and(ReloadedFile::refresh),
            self.signed.as_ref().is_some_and(ReloadedFile::refresh),
            self.clients.as_ref().is_some_and(|clients| clients.refresh()),
        ];
        if changed.contains(&true) {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Returns the identity of credentials, or a reason for logs.
    pub(crate) fn identify(&self, presented: &PresentedCredentials) -> Result<Arc<Identity>, &'static str> {
        match presented {
            PresentedCredentials::Token(token) => self.by_token(token),
            PresentedCredentials::Certificate(certificate) => {
                let clients = self.clients.as_ref().ok_or("no_certificate")?;
                clients.accept(certificate).then(|| certificate.identity().clone()).ok_or("certificate")
            }
        }
    }

    fn by_token(&self, token: &str) -> Result<Arc<Identity>, &'static str> {
        let fixed = self.tokens.as_ref().and_then(|tokens| tokens.get().find(token).cloned());
        if let Some(identity) = fixed {
            return Ok(Arc::new(identity));
        }
        let signed = self.signed.as_ref().ok_or("unknown_token")?;
        // Taken before the keys are: if they change in between, the result is not used again.
        let (changes, now) = (*self.changes.borrow(), system_time());
        self.verified
            .get_or_verify(token, changes, now, || signed.get().verify(token, now).map_err(|fault| fault.code()))
    }
}

/// Credentials that a peer presented.
#[derive(Clone)]
pub(crate) enum PresentedCredentials {
    /// A bearer token.
    Token(String),
    /// A client certificate with its intermediates.
    Certificate(Arc<ClientCertificate>),
}

/// Tokens are secrets and must not be logged.
impl fmt::Debug for PresentedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PresentedCredentials::Token(_) => "a token",
            PresentedCredentials::Certificate(_) => "a certificate",
        })
    }
}

/// Accepted credentials of a connection, which may lapse. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedCredentials(Arc<AcceptedCredentialsInner>);

#[derive(Debug)]
struct AcceptedCredentialsInner {
    credentials: Arc<Credentials>,
    presented: PresentedCredentials,
    identity: Arc<Identity>,
    /// The number of changes after which these were checked last.
    checked: AtomicU64,
}

impl AcceptedCredentials {
    /// Accepts credentials, or returns a reason for logs.
    pub(crate) fn accept(
        credentials: &Arc<Credentials>,
        presented: PresentedCredentials,
    ) -> Result<AcceptedCredentials, &'static str> {
        let checked = AtomicU64::new(*credentials.changes.borrow());
        let identity = credentials.identify(&presented)?;
        Ok(AcceptedCredentials(Arc::new(AcceptedCredentialsInner {
            credentials: credentials.clone(),
            presented,
            identity,
            checked,
        })))
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        self.0.identity.clone()
    }

    /// Returns whether they are still accepted.
    pub(crate) fn is_valid(&self) -> bool {
        let AcceptedCredentialsInner { credentials, checked, identity, .. } = &*self.0;
        if identity.expires.is_some_and(|end| system_time() >= end) {
            return false;
        }
        let changes = *credentials.changes.borrow();
        if checked.load(Relaxed) == changes {
            return true;
        }
        let valid = self.check();
        if valid {
            checked.store(changes, Relaxed);
        }
        valid
    }

    /// Checks them again. Changed roles or users count as revoked: a new connection gets the new ones.
    fn check(&self) -> bool {
        let AcceptedCredentialsInner { credentials, presented, identity, .. } = &*self.0;
        let now = credentials.identify(presented);
        now.is_ok_and(|now| {
            now.principal == identity.principal && now.roles == identity.roles && now.users == identity.users
        })
    }

    /// Waits until they are no longer accepted.
    pub(crate) async fn lapsed(&self) {
        let AcceptedCredentialsInner { credentials, presented, identity, .. } = &*self.0;
        let mut changes = credentials.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if !self.is_valid() {
                return;
            }
            let is_certificate = matches!(presented, PresentedCredentials::Certificate(_));
            let left = identity.expires.map(|end| end.millis().saturating_sub(system_time().millis()));
            let left =
                left.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(EXPIRY_CHECK_INTERVAL));
            let left = left.or(is_certificate.then_some(CERTIFICATE_CHECK_INTERVAL));
            tokio::select! {
                () = tokio::time::sleep(left.unwrap_or(Duration::MAX)) => {
                    if is_certificate && !self.check() {
                        return;
                    }
                }
                // Cannot fail: the sender lives as long as the credentials, which are held here.
                _ = changes.changed() => {}
            }
        }
    }
}
