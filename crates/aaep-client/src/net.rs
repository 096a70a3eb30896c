//! TCP and TLS: a stream of bytes to a site.

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
use crate::options::{ConnectError, TlsOptions};

/// Both ways of a connection.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to a site, encrypted or not.
pub(crate) struct Stream(Box<dyn Duplex>);

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
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

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// The rules of encryption for all connections of a subscriber.
pub(crate) fn tls_config(tls: &TlsOptions) -> Result<Arc<ClientConfig>, ConnectError> {
    let told = |what: &str, e: &dyn std::fmt::Display| ConnectError::Tls(format!("{what}: {e}"));
    let mut roots = RootCertStore::empty();
    if !tls.disable_system_roots {
        // What of the system cannot be read cannot be trusted; the rest still can.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let mut found = tls.authorities.is_empty();
    for certificate in CertificateDer::pem_slice_iter(&tls.authorities) {
        let certificate = certificate.map_err(|e| told("authorities", &e))?;
        roots.add(certificate).map_err(|e| told("authorities", &e))?;
        found = true;
    }
    if !found {
        return Err(told("authorities", &"there is no certificate in them"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| told("versions", &e))?
        .with_root_certificates(roots);
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
            let chain = chain.map_err(|e| told("certificate", &e))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| told("key", &e))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| told("certificate and key", &e))?
        }
    };
    Ok(Arc::new(config))
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) timeout: Duration,
}

impl Dialer {
    /// A connection to the site, in time or not at all.
    pub(crate) async fn dial(&self, site: &HttpOrigin) -> io::Result<Stream> {
        tokio::time::timeout(self.timeout, self.dial_at_leisure(site))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the host does not answer")))
    }

    async fn dial_at_leisure(&self, site: &HttpOrigin) -> io::Result<Stream> {
        let tcp = TcpStream::connect((site.bare_host(), site.port)).await?;
        // Replies are small and wanted at once. Without the option they are late, not lost.
        let _ = tcp.set_nodelay(true);
        // A peer that vanished without a word is found out, on the transports that have no sign of life.
        let _ = rustix::net::sockopt::set_socket_keepalive(&tcp, true);
        if !site.tls {
            return Ok(Stream(Box::new(tcp)));
        }
        let name = ServerName::try_from(site.bare_host().to_owned()).map_err(io::Error::other)?;
        let tls = TlsConnector::from(self.tls.clone()).connect(name, tcp).await?;
        Ok(Stream(Box::new(tls)))
    }
}

impl tower::Service<Uri> for Dialer {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

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

/// What an error means: another try may help, unless the other side is not who it should be.
pub(crate) fn loss(error: &(dyn std::error::Error + 'static)) -> DisconnectReason {
    let mut cause = Some(error);
    let mut text = error.to_string();
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>()
            && let rustls::Error::InvalidCertificate(fault) = tls
        {
            return DisconnectReason::Refused(format!(
                "the certificate of the host is not trusted: {}",
                distrust(fault)
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

/// What is wrong with a certificate, in words that can be listened to.
fn distrust(fault: &CertificateError) -> &'static str {
    use CertificateError as Fault;
    match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "its time is over",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "its time has not come",
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => "it is for another name",
        Fault::Revoked => "it was revoked",
        Fault::BadEncoding | Fault::UnhandledCriticalExtension => "it cannot be read",
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => "it is not for servers",
        _ => "nobody signed it whom you trust",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_certificate_is_told_in_words() {
        let broken = |fault| io::Error::other(rustls::Error::InvalidCertificate(fault));
        for (fault, words) in [
            (CertificateError::UnknownIssuer, "nobody signed it whom you trust"),
            (CertificateError::BadSignature, "nobody signed it whom you trust"),
            (CertificateError::Expired, "its time is over"),
            (CertificateError::NotValidForName, "it is for another name"),
        ] {
            let told = DisconnectReason::Refused(format!("the certificate of the host is not trusted: {words}"));
            assert_eq!(loss(&broken(fault)), told);
        }
    }

    #[test]
    fn authorities_without_a_certificate_are_a_mistake() {
        let tls = TlsOptions { authorities: b"no certificate\n".to_vec(), ..TlsOptions::default() };
        assert!(matches!(tls_config(&tls), Err(ConnectError::Tls(why)) if why.contains("no certificate in them")));
        assert!(tls_config(&TlsOptions::default()).is_ok());
    }
}
