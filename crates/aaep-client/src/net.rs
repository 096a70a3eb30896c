//! TCP and TLS: a stream of bytes to an origin.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aaep_proto::subscriber::DisconnectReason;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::HttpOrigin;
use crate::error::ConnectError;
use crate::options::{TlsIdentity, TlsOptions};
use crate::self_signed::{SelfSignedVerifier, is_authority_as_server};

/// A byte stream that is read and written.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to an origin, encrypted or not.
pub(crate) struct OriginStream(Box<dyn Duplex>);

impl AsyncRead for OriginStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Connection for OriginStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Returns the TLS configuration for all connections of a subscriber.
pub(crate) fn tls_config(tls: &TlsOptions) -> Result<Arc<ClientConfig>, ConnectError> {
    let failed = |what: &str, e: &dyn std::fmt::Display| ConnectError::Tls(format!("{what}: {e}"));
    let mut roots = RootCertStore::empty();
    if !tls.disable_system_roots {
        // Certificates of the system that cannot be read are left out.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let mut found = tls.authorities.is_empty();
    let mut pinned = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&tls.authorities) {
        let certificate = certificate.map_err(|e| failed("authorities", &e))?;
        roots.add(certificate.clone()).map_err(|e| failed("authorities", &e))?;
        pinned.push(certificate);
        found = true;
    }
    if !found {
        return Err(failed("authorities", &"the file contains no certificate"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| failed("versions", &e))?;
    let builder = if pinned.is_empty() {
        builder.with_root_certificates(roots)
    } else {
        let verifier = SelfSignedVerifier::new(roots, pinned, provider).map_err(|e| failed("authorities", &e))?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
    };
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(TlsIdentity { chain, key }) => {
            let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
            let chain = chain.map_err(|e| failed("certificate", &e))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| failed("key", &e))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| failed("certificate and key", &e))?
        }
    };
    Ok(Arc::new(config))
}

/// Opens connections to origins.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) timeout: Duration,
}

impl Dialer {
    /// Connects to the origin within the timeout.
    pub(crate) async fn dial(&self, origin: &HttpOrigin) -> io::Result<OriginStream> {
        tokio::time::timeout(self.timeout, self.dial_without_timeout(origin))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the host does not respond")))
    }

    async fn dial_without_timeout(&self, origin: &HttpOrigin) -> io::Result<OriginStream> {
        let tcp = TcpStream::connect((origin.bare_host(), origin.port)).await?;
        // Replies are small and urgent. Without this option they are late, not lost.
        let _ = tcp.set_nodelay(true);
        // Detects a peer that vanished, on the transports without keepalive messages of their own.
        let _ = socket2::SockRef::from(&tcp).set_keepalive(true);
        if !origin.tls {
            return Ok(OriginStream(Box::new(tcp)));
        }
        let name = ServerName::try_from(origin.bare_host().to_owned()).map_err(io::Error::other)?;
        let tls = TlsConnector::from(self.tls.clone()).connect(name, tcp).await?;
        Ok(OriginStream(Box::new(tls)))
    }
}

impl tower::Service<Uri> for Dialer {
    type Response = TokioIo<OriginStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<OriginStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move {
            let tls = uri.scheme_str() == Some("https");
            let host = uri.host().unwrap_or_default().to_owned();
            let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
            dialer.dial(&HttpOrigin { tls, host, port, path: String::new() }).await.map(TokioIo::new)
        })
    }
}

/// Classifies an error of a connection: retrying may help, unless the certificate of the host is not trusted.
pub(crate) fn disconnect_reason(error: &(dyn std::error::Error + 'static)) -> DisconnectReason {
    let mut cause = Some(error);
    let mut text = error.to_string();
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>()
            && let rustls::Error::InvalidCertificate(problem) = tls
        {
            return DisconnectReason::Refused(format!(
                "the certificate of the host is not trusted: {}",
                certificate_problem(problem)
            ));
        }
        text = error.to_string();
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    DisconnectReason::Broken(text)
}

/// Describes what is wrong with a certificate, in words for a user.
fn certificate_problem(error: &CertificateError) -> &'static str {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => "it has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet",
        E::NotValidForName | E::NotValidForNameContext { .. } => "it is for another name",
        E::Revoked => "it was revoked",
        E::BadEncoding | E::UnhandledCriticalExtension => "it cannot be read",
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "it is not for servers",
        error if is_authority_as_server(error) => {
            "it is self-signed; to trust it, name a file with exactly this certificate as an authority"
        }
        _ => "it is not signed by a trusted authority",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_errors_are_described_in_words() {
        let broken = |error| io::Error::other(rustls::Error::InvalidCertificate(error));
        for (error, words) in [
            (CertificateError::UnknownIssuer, "it is not signed by a trusted authority"),
            (CertificateError::BadSignature, "it is not signed by a trusted authority"),
            (CertificateError::Expired, "it has expired"),
            (CertificateError::NotValidForName, "it is for another name"),
        ] {
            let expected = DisconnectReason::Refused(format!("the certificate of the host is not trusted: {words}"));
            assert_eq!(disconnect_reason(&broken(error)), expected);
        }
    }

    #[test]
    fn authorities_without_a_certificate_are_an_error() {
        let tls = TlsOptions::new().authorities(b"no certificate\n".to_vec());
        assert!(matches!(tls_config(&tls), Err(ConnectError::Tls(why)) if why.contains("contains no certificate")));
        assert!(tls_config(&TlsOptions::new()).is_ok());
    }
}
