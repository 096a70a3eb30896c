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

use super::tls;
use crate::clock;
use crate::config::{Config, ConfigError};

/// How often the time is compared with an expiry: the clock may be set, and the machine may have slept.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// How often the certificate of an open connection is checked again: it may have expired.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(300);

type ClientVerifier = Arc<dyn ClientCertVerifier>;

/// The credentials that a server accepts.
#[derive(Debug)]
pub(crate) struct Credentials {
    tokens: Option<ReloadedFile<StaticTokens>>,
    signed: Option<ReloadedFile<TokenVerifier>>,
    clients: Option<Arc<ReloadedFile<ClientVerifier>>>,
    /// Counts how often they changed.
    changes: watch::Sender<u64>,
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
        let clients = client_ca.map(|path| ReloadedFile::load("tls.client_ca", path, tls::client_verifier));
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
    pub(crate) fn clients(&self) -> Option<Arc<ReloadedFile<ClientVerifier>>> {
        self.clients.clone()
    }

    /// Reads changed files again. What is open is then checked again.
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

    /// Who shows these. The reason of a refusal is a word for logs.
    pub(crate) fn identify(&self, shown: &PresentedCredentials) -> Result<Arc<Identity>, &'static str> {
        match shown {
            PresentedCredentials::Token(token) => self.by_token(token).map(Arc::new),
            PresentedCredentials::Certificate(certificate) => {
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
        signed.verify(token, clock::system_time()).map_err(|fault| fault.code())
    }
}

/// What someone has shown.
#[derive(Clone)]
pub(crate) enum PresentedCredentials {
    /// A bearer token.
    Token(String),
    /// A client certificate, with those between it and the authority.
    Certificate(Arc<ClientCertificate>),
}

/// Tokens are secrets, and stay out of logs.
impl fmt::Debug for PresentedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PresentedCredentials::Token(_) => "a token",
            PresentedCredentials::Certificate(_) => "a certificate",
        })
    }
}

/// The certificate of a client, as TLS has checked it.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    identity: Arc<Identity>,
    chain: Vec<CertificateDer<'static>>,
}

impl ClientCertificate {
    /// The identity that a chain of certificates proves.
    pub(crate) fn of(chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        let print = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, chain.first()?);
        let hex: String = print.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let roles = [Role::Subscribe, Role::Reply, Role::Produce].into();
        let identity = Arc::new(Identity { principal: format!("cert:{hex}"), roles, expires: None });
        Some(Arc::new(ClientCertificate {
            identity,
            chain: chain.iter().cloned().map(CertificateDer::into_owned).collect(),
        }))
    }
}

/// Credentials that were accepted for a connection, for as long as they are.
#[derive(Clone, Debug)]
pub(crate) struct CredentialLease(Arc<AcceptedCredentials>);

#[derive(Debug)]
struct AcceptedCredentials {
    credentials: Arc<Credentials>,
    shown: PresentedCredentials,
    identity: Arc<Identity>,
    /// The last change of the credentials that these were checked after.
    checked: AtomicU64,
}

impl CredentialLease {
    /// Accepts credentials, or gives the reason why not.
    pub(crate) fn accept(
        credentials: &Arc<Credentials>,
        shown: PresentedCredentials,
    ) -> Result<CredentialLease, &'static str> {
        let checked = AtomicU64::new(*credentials.changes.borrow());
        let identity = credentials.identify(&shown)?;
        Ok(CredentialLease(Arc::new(AcceptedCredentials {
            credentials: credentials.clone(),
            shown,
            identity,
            checked,
        })))
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        self.0.identity.clone()
    }

    /// Whether they are accepted now.
    pub(crate) fn is_valid(&self) -> bool {
        let AcceptedCredentials { credentials, checked, identity, .. } = &*self.0;
        if identity.expires.is_some_and(|end| clock::system_time() >= end) {
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
        let AcceptedCredentials { credentials, shown, identity, .. } = &*self.0;
        let now = credentials.identify(shown);
        now.is_ok_and(|now| now.principal == identity.principal && now.roles == identity.roles)
    }

    /// Waits until they are no longer accepted.
    pub(crate) async fn lapsed(&self) {
        let AcceptedCredentials { credentials, shown, identity, .. } = &*self.0;
        let mut changes = credentials.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if !self.is_valid() {
                return;
            }
            let is_certificate = matches!(shown, PresentedCredentials::Certificate(_));
            let left = identity.expires.map(|end| end.millis().saturating_sub(clock::system_time().millis()));
            let left =
                left.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(EXPIRY_CHECK_INTERVAL));
            let left = left.or(is_certificate.then_some(CERTIFICATE_CHECK_INTERVAL));
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

type Loader<T> = Box<dyn Fn(&Path) -> Result<T, String> + Send + Sync>;

/// A value that was read from a file and is read again when the file changes.
pub(crate) struct ReloadedFile<T> {
    /// The setting that names the file.
    setting: &'static str,
    path: PathBuf,
    read: Loader<T>,
    state: Mutex<ReloadState<T>>,
}

struct ReloadState<T> {
    value: Arc<T>,
    /// The file that was read last, whether it could be used or not.
    read: FileFingerprint,
    /// The file as it was when it was looked at last.
    seen: FileFingerprint,
}

/// Tells whether a file is another than before.
#[derive(Clone, Debug, Default, PartialEq)]
struct FileFingerprint {
    modified: Option<SystemTime>,
    length: u64,
    /// Number and time of the last change of any kind, where the system knows them.
    inode: (u64, i64, i64),
}

impl FileFingerprint {
    fn of(path: &Path) -> FileFingerprint {
        let Ok(metadata) = std::fs::metadata(path) else { return FileFingerprint::default() };
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let inode = (0, 0, 0);
        FileFingerprint { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }
}

impl<T> ReloadedFile<T> {
    pub(crate) fn load(
        setting: &'static str,
        path: &Path,
        read: impl Fn(&Path) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<ReloadedFile<T>, ConfigError> {
        let stamp = FileFingerprint::of(path);
        let value = Arc::new(read(path).map_err(|e| ConfigError(format!("{setting}: {e}")))?);
        let state = Mutex::new(ReloadState { value, read: stamp.clone(), seen: stamp });
        Ok(ReloadedFile { setting, path: path.to_owned(), read: Box::new(read), state })
    }

    /// The value in use.
    pub(crate) fn get(&self) -> Arc<T> {
        self.lock().value.clone()
    }

    /// Reads the file again if it has changed and is no longer being written: one that looks the same twice in a row.
    /// Answers whether another value is in use. A file that cannot be used leaves the last good value in use.
    fn refresh(&self) -> bool {
        let now = FileFingerprint::of(&self.path);
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

    fn lock(&self) -> MutexGuard<'_, ReloadState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for ReloadedFile<T> {
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
        let file = ReloadedFile::load("test", &path, number).unwrap();
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
