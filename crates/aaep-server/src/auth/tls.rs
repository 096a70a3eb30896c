//! TLS 1.2 and 1.3 by rustls: server certificates that are reloaded when they change, client certificates.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use aaep_keys::{Identity, Role};
use tokio::net::TcpStream;

use super::reload::ReloadedFile;
use crate::auth::Authenticator;
use crate::config::{ConfigError, TlsConfig};

pub(crate) use tokio_rustls::TlsAcceptor;

/// The handshake of a connection.
pub(crate) type TlsHandshake = tokio_rustls::Accept<TcpStream>;

/// An encrypted connection.
pub(crate) type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Returns the certificate of the client of a connection, if it has one.
pub(crate) fn client_certificate(stream: &TlsStream) -> Option<Arc<ClientCertificate>> {
    stream.get_ref().1.peer_certificates().and_then(ClientCertificate::of)
}

/// A client certificate that TLS has verified.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    identity: Arc<Identity>,
    chain: Vec<CertificateDer<'static>>,
}

impl ClientCertificate {
    /// Returns the certificate of a chain, or `None` if the chain is empty.
    fn of(chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        let print = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, chain.first()?);
        let hex: String = print.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let roles = [Role::Subscribe, Role::Reply, Role::Produce];
        let identity = Arc::new(Identity::new(format!("cert:{hex}"), roles));
        let chain = chain.iter().cloned().map(CertificateDer::into_owned).collect();
        Some(Arc::new(ClientCertificate { identity, chain }))
    }

    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }
}

/// The authorities of client certificates, reloaded when their file changes.
#[derive(Debug)]
pub(crate) struct ClientAuthorities(ReloadedFile<Arc<dyn ClientCertVerifier>>);

impl ClientAuthorities {
    pub(crate) fn load(path: &Path) -> Result<ClientAuthorities, ConfigError> {
        ReloadedFile::load("tls.client_ca", path, client_verifier).map(ClientAuthorities)
    }

    /// Reloads a changed file. Returns whether it has changed.
    pub(crate) fn refresh(&self) -> bool {
        self.0.refresh()
    }

    /// Returns whether a certificate is valid now.
    pub(crate) fn accept(&self, certificate: &ClientCertificate) -> bool {
        let Some((first, others)) = certificate.chain.split_first() else { return false };
        self.0.get().verify_client_cert(first, others, UnixTime::now()).is_ok()
    }
}

/// The server certificate, reloaded when its files change.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsConfig,
    provider: Arc<CryptoProvider>,
    clients: Option<Arc<ClientAuthorities>>,
    current: RwLock<LoadedCertificate>,
}

#[derive(Debug)]
struct LoadedCertificate {
    key: Arc<CertifiedKey>,
    modified: ModifiedTimes,
}

/// When the certificate and key files were modified.
type ModifiedTimes = [Option<SystemTime>; 2];

impl Certificates {
    pub(crate) fn load(files: &TlsConfig, authenticator: &Authenticator) -> Result<Arc<Certificates>, ConfigError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let modified = modified(files);
        let key = Arc::new(read(files, &provider)?);
        let current = RwLock::new(LoadedCertificate { key, modified });
        let clients = authenticator.credentials().clients();
        Ok(Arc::new(Certificates { files: files.clone(), provider, clients, current }))
    }

    /// Returns an acceptor with these ALPN protocols.
    pub(crate) fn acceptor(self: &Arc<Self>, protocols: &[&[u8]]) -> Result<TlsAcceptor, ConfigError> {
        let error = |e: &dyn std::fmt::Display| ConfigError(format!("tls: {e}"));
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|e| error(&e))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(Arc::new(CurrentClients(clients.clone()))),
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reloads the files if they have changed. If they are incomplete or invalid, the last good ones stay in use.
    pub(crate) fn refresh(&self) {
        let modified = modified(&self.files);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).modified == modified {
            return;
        }
        match read(&self.files, &self.provider) {
            Ok(key) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) =
                    LoadedCertificate { key: Arc::new(key), modified };
                tracing::info!("reloaded the certificate");
            }
            Err(error) => tracing::warn!(%error, "cannot use the changed certificate; keeping the previous one"),
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).key.clone())
    }
}

/// Verifies client certificates with the current authorities.
#[derive(Debug)]
struct CurrentClients(Arc<ClientAuthorities>);

impl ClientCertVerifier for CurrentClients {
    /// Returns none, because they may change; a client then presents the certificate that it has.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.0.get().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.0.get().verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.0.get().verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.0.get().supported_verify_schemes()
    }
}

/// Returns a verifier of client certificates with the authorities of a file.
fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path).map_err(|e| format!("cannot read {}: {e}", path.display()))? {
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|e| e.to_string())
}

fn modified(files: &TlsConfig) -> ModifiedTimes {
    [&files.cert, &files.key].map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let list = CertificateDer::pem_file_iter(path).map_err(|e| e.to_string())?;
    let list: Vec<_> = list.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    if list.is_empty() { Err("it contains no certificate".to_owned()) } else { Ok(list) }
}

fn read(files: &TlsConfig, provider: &CryptoProvider) -> Result<CertifiedKey, ConfigError> {
    let read_error = |e: String| ConfigError(format!("tls.cert: cannot read {}: {e}", files.cert.display()));
    let chain = certificates(&files.cert).map_err(read_error)?;
    let error = |e: &dyn std::fmt::Display| ConfigError(format!("tls.key: cannot use {}: {e}", files.key.display()));
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| error(&e))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| error(&e))
}
