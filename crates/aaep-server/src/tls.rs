//! Encryption by rustls: TLS 1.2 and 1.3, certificates that are read again when they change, client certificates.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::config::{ConfigError, Tls};

/// The certificate in use, and how to get the next one.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: Tls,
    provider: Arc<CryptoProvider>,
    current: RwLock<(Arc<CertifiedKey>, Changed)>,
}

type Changed = [Option<SystemTime>; 2];

impl Certificates {
    pub(crate) fn load(files: &Tls) -> Result<Arc<Certificates>, ConfigError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let changed = changed(files);
        let current = RwLock::new((Arc::new(read(files, &provider)?), changed));
        Ok(Arc::new(Certificates { files: files.clone(), provider, current }))
    }

    /// How connections are encrypted, with these application protocols.
    pub(crate) fn server_config(self: &Arc<Self>, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, ConfigError> {
        let told = |e: &dyn std::fmt::Display| ConfigError(format!("tls: {e}"));
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|e| told(&e))?;
        let builder = match &self.files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, "tls.client_ca")? {
                    roots.add(certificate).map_err(|e| told(&e))?;
                }
                let provider = self.provider.clone();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| told(&e))?)
            }
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }

    /// Reads the files again if they have changed. Half-written or wrong ones leave the last good ones in use.
    pub(crate) fn refresh(&self) {
        let now = changed(&self.files);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).1 == now {
            return;
        }
        match read(&self.files, &self.provider) {
            Ok(key) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = (Arc::new(key), now);
                tracing::info!("a new certificate is in use");
            }
            Err(error) => tracing::warn!(%error, "the changed certificate cannot be used; the last one stays"),
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}

fn changed(files: &Tls) -> Changed {
    [&files.cert, &files.key].map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let told = |e: &dyn std::fmt::Display| ConfigError(format!("{what}: cannot read {}: {e}", path.display()));
    let list = CertificateDer::pem_file_iter(path).map_err(|e| told(&e))?;
    let list: Vec<_> = list.collect::<Result<_, _>>().map_err(|e| told(&e))?;
    if list.is_empty() { Err(told(&"there is no certificate in it")) } else { Ok(list) }
}

fn read(files: &Tls, provider: &CryptoProvider) -> Result<CertifiedKey, ConfigError> {
    let chain = certificates(&files.cert, "tls.cert")?;
    let told = |e: &dyn std::fmt::Display| ConfigError(format!("tls.key: cannot use {}: {e}", files.key.display()));
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| told(&e))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| told(&e))
}
