//! The credentials that are accepted: read from files, read again when the files change, and checked again for as long
//! as a connection lasts. To revoke one needs no restart, and ends what was opened with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aaep_keys::{Identity, KeySet, Role, StaticTokens, TokenVerifier};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::watch;

use crate::config::{Config, ConfigError};
use crate::{clock, tls};

/// How often the time is compared with an expiry: the clock may be set, and the machine may have slept.
const RECHECK: Duration = Duration::from_secs(30);

/// How often the certificate of an open connection is checked again: it may have expired.
const RECHECK_CERTIFICATE: Duration = Duration::from_secs(300);

type Clients = Arc<dyn ClientCertVerifier>;

/// The credentials that a server accepts.
#[derive(Debug)]
pub(crate) struct Credentials {
    tokens: Option<FromFile<StaticTokens>>,
    signed: Option<FromFile<TokenVerifier>>,
    clients: Option<Arc<FromFile<Clients>>>,
    /// Counts how often they changed.
    changes: watch::Sender<u64>,
}

impl Credentials {
    pub(crate) fn load(config: &Config) -> Result<Credentials, ConfigError> {
        let auth = config.auth.clone();
        let tokens = auth.tokens.as_ref().map(|path| {
            FromFile::load("auth.tokens", path, |path| StaticTokens::load(path).map_err(|e| e.to_string()))
        });
        let signed = auth.jwks.clone().map(|path| {
            FromFile::load("auth.jwks", &path, move |path| {
                let keys = KeySet::load(path).map_err(|e| e.to_string())?;
                Ok(TokenVerifier::new(keys, &auth.issuer, &auth.audience))
            })
        });
        let client_ca = config.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        let clients = client_ca.map(|path| FromFile::load("tls.client_ca", path, tls::client_verifier));
        Ok(Credentials {
            tokens: tokens.transpose()?,
            signed: signed.transpose()?,
            clients: clients.transpose()?.map(Arc::new),
            changes: watch::Sender::new(0),
        })
    }

    /// Whether none are asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.signed.is_none() && self.clients.is_none()
    }

    /// What checks clients' certificates, if they must show one.
    pub(crate) fn clients(&self) -> Option<Arc<FromFile<Clients>>> {
        self.clients.clone()
    }

    /// Reads changed files again. What is open is then checked again.
    pub(crate) fn refresh(&self) {
        let changed = [
            self.tokens.as_ref().is_some_and(FromFile::refresh),
            self.signed.as_ref().is_some_and(FromFile::refresh),
            self.clients.as_ref().is_some_and(|clients| clients.refresh()),
        ];
        if changed.contains(&true) {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Who shows these. The reason of a refusal is a word for logs.
    pub(crate) fn identify(&self, shown: &Shown) -> Result<Arc<Identity>, &'static str> {
        match shown {
            Shown::Token(token) => self.by_token(token).map(Arc::new),
            Shown::Certificate(certificate) => {
                let (first, others) = certificate.chain.split_first().ok_or("no_certificate")?;
                let clients = self.clients.as_ref().ok_or("no_certificate")?.get();
                let verified = clients.verify_client_cert(first, others, UnixTime::now());
                verified.map(|_| certificate.identity.clone()).map_err(|_| "certificate")
            }
        }
    }

    fn by_token(&self, token: &str) -> Result<Identity, &'static str> {
        let fixed = self.tokens.as_ref().and_then(|tokens| tokens.get().find(token).cloned());
        if let Some(identity) = fixed {
            return Ok(identity);
        }
        let signed = self.signed.as_ref().ok_or("unknown_token")?.get();
        signed.verify(token, clock::wall()).map_err(|fault| fault.code())
    }
}

/// What someone has shown.
#[derive(Clone)]
pub(crate) enum Shown {
    /// A bearer token.
    Token(String),
    /// A client certificate, with those between it and the authority.
    Certificate(Arc<Certificate>),
}

/// Tokens are secrets, and stay out of logs.
impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shown::Token(_) => "a token",
            Shown::Certificate(_) => "a certificate",
        })
    }
}

/// The certificate of a client, as TLS has checked it.
#[derive(Debug)]
pub(crate) struct Certificate {
    identity: Arc<Identity>,
    chain: Vec<CertificateDer<'static>>,
}

impl Certificate {
    /// The identity that a chain of certificates proves.
    pub(crate) fn of(chain: &[CertificateDer<'_>]) -> Option<Arc<Certificate>> {
        let print = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, chain.first()?);
        let hex: String = print.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let roles = [Role::Subscribe, Role::Reply, Role::Produce].into();
        let identity = Arc::new(Identity { principal: format!("cert:{hex}"), roles, expires: None });
        Some(Arc::new(Certificate { identity, chain: chain.iter().cloned().map(CertificateDer::into_owned).collect() }))
    }
}

/// Credentials that were accepted for a connection, for as long as they are.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Held>);

#[derive(Debug)]
struct Held {
    credentials: Arc<Credentials>,
    shown: Shown,
    identity: Arc<Identity>,
    /// The last change of the credentials that these were checked after.
    checked: AtomicU64,
}

impl Lease {
    /// Accepts credentials, or gives the reason why not.
    pub(crate) fn accept(credentials: &Arc<Credentials>, shown: Shown) -> Result<Lease, &'static str> {
        let checked = AtomicU64::new(*credentials.changes.borrow());
        let identity = credentials.identify(&shown)?;
        Ok(Lease(Arc::new(Held { credentials: credentials.clone(), shown, identity, checked })))
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        self.0.identity.clone()
    }

    /// Whether they are accepted now.
    pub(crate) fn holds(&self) -> bool {
        let Held { credentials, checked, identity, .. } = &*self.0;
        if identity.expires.is_some_and(|end| clock::wall() >= end) {
            return false;
        }
        let changes = *credentials.changes.borrow();
        if checked.load(Relaxed) == changes {
            return true;
        }
        let holds = self.check();
        if holds {
            checked.store(changes, Relaxed);
        }
        holds
    }

    /// Checks them anew. Other rights than before count as revoked: whoever comes again gets those.
    fn check(&self) -> bool {
        let Held { credentials, shown, identity, .. } = &*self.0;
        let now = credentials.identify(shown);
        now.is_ok_and(|now| now.principal == identity.principal && now.roles == identity.roles)
    }

    /// Waits until they are no longer accepted.
    pub(crate) async fn lapsed(&self) {
        let Held { credentials, shown, identity, .. } = &*self.0;
        let mut changes = credentials.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if !self.holds() {
                return;
            }
            let is_certificate = matches!(shown, Shown::Certificate(_));
            let left = identity.expires.map(|end| end.millis().saturating_sub(clock::wall().millis()));
            let left = left.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(RECHECK));
            let left = left.or(is_certificate.then_some(RECHECK_CERTIFICATE));
            tokio::select! {
                () = tokio::time::sleep(left.unwrap_or(Duration::MAX)) => {
                    if is_certificate && !self.check() {
                        return;
                    }
                }
                // The sender lives as long as the credentials, which are held here.
                _ = changes.changed() => {}
            }
        }
    }
}

type Read<T> = Box<dyn Fn(&Path) -> Result<T, String> + Send + Sync>;

/// A value that was read from a file and is read again when the file changes.
pub(crate) struct FromFile<T> {
    /// The setting that names the file.
    setting: &'static str,
    path: PathBuf,
    read: Read<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    /// The file that was read last, whether it could be used or not.
    read: Stamp,
    /// The file as it was when it was looked at last.
    seen: Stamp,
}

/// Tells whether a file is another than before.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Number and time of the last change of any kind, where the system knows them.
    inode: (u64, i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let Ok(metadata) = std::fs::metadata(path) else { return Stamp::default() };
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let inode = (0, 0, 0);
        Stamp { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }
}

impl<T> FromFile<T> {
    pub(crate) fn load(
        setting: &'static str,
        path: &Path,
        read: impl Fn(&Path) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<FromFile<T>, ConfigError> {
        let stamp = Stamp::of(path);
        let value = Arc::new(read(path).map_err(|e| ConfigError(format!("{setting}: {e}")))?);
        let state = Mutex::new(State { value, read: stamp.clone(), seen: stamp });
        Ok(FromFile { setting, path: path.to_owned(), read: Box::new(read), state })
    }

    /// The value in use.
    pub(crate) fn get(&self) -> Arc<T> {
        self.lock().value.clone()
    }

    /// Reads the file again if it has changed and is no longer being written: one that looks the same twice in a row.
    /// Answers whether another value is in use. A file that cannot be used leaves the last good value in use.
    fn refresh(&self) -> bool {
        let now = Stamp::of(&self.path);
        let mut state = self.lock();
        let settled = std::mem::replace(&mut state.seen, now.clone()) == now;
        if state.read == now || !settled {
            return false;
        }
        state.read = now;
        drop(state);
        let (setting, path) = (self.setting, self.path.display());
        match (self.read)(&self.path) {
            Ok(value) => {
                self.lock().value = Arc::new(value);
                tracing::info!(setting, %path, "a changed file is in use");
                true
            }
            Err(error) => {
                tracing::error!(setting, %path, %error, "the changed file cannot be used; what was read before stays in use");
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for FromFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(path: &Path) -> Result<u32, String> {
        std::fs::read_to_string(path).map_err(|e| e.to_string())?.trim().parse().map_err(|_| "no number".to_owned())
    }

    #[test]
    fn a_changed_file_is_read_when_it_is_written_and_a_wrong_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let file = FromFile::load("test", &path, number).unwrap();
        assert!(!file.refresh());
        std::fs::write(&path, "22").unwrap();
        assert!(!file.refresh(), "it may still be being written");
        assert!(file.refresh());
        assert_eq!((*file.get(), file.refresh()), (22, false));
        for wrong in ["", "not a number"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(!file.refresh() && !file.refresh());
            assert_eq!(*file.get(), 22, "{wrong:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!file.refresh() && !file.refresh());
        assert_eq!(*file.get(), 22);
        std::fs::write(&path, "333").unwrap();
        assert!(!file.refresh() && file.refresh());
        assert_eq!(*file.get(), 333);
    }
}
