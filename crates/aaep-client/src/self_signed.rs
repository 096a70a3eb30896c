//! Certificates of servers that are self-signed.
//!
//! `openssl req -x509` makes a certificate of an authority, and people use it for a server. The rules of the web refuse
//! that, curl and browsers accept it if the user trusts exactly this certificate. So does this verifier.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts what the rules of the web accept, and a self-signed certificate of an authority that is used for a server if it
/// is one of the pinned ones, byte by byte. Its name and its validity are checked all the same.
#[derive(Debug)]
pub(crate) struct SelfSignedVerifier {
    web: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl SelfSignedVerifier {
    pub(crate) fn new(
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<SelfSignedVerifier, rustls::client::VerifierBuilderError> {
        let web = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(SelfSignedVerifier { web, pinned })
    }
}

impl ServerCertVerifier for SelfSignedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.web.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The validity comes before this error: a certificate that has expired has another one. Tests prove it.
            Err(Error::InvalidCertificate(error))
                if is_authority_as_server(&error) && self.pinned.iter().any(|pinned| pinned == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.web.supported_verify_schemes()
    }
}

/// Returns whether the error is that the certificate of an authority is used for a server.
pub(crate) fn is_authority_as_server(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    matches!(other.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    /// Makes a certificate as `openssl req -x509 -subj /CN=localhost` does.
    fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verify(pinned: &[&CertificateDer<'static>], shown: &CertificateDer<'static>, name: &str) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        for certificate in pinned {
            roots.add((*certificate).clone()).unwrap();
        }
        let pinned = pinned.iter().map(|certificate| (*certificate).clone()).collect();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = SelfSignedVerifier::new(roots, pinned, provider).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(shown, &[], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn exactly_the_named_certificate_is_accepted_for_its_names() {
        let certificate = self_signed(|_| {});
        for name in ["localhost", "127.0.0.1"] {
            assert_eq!(verify(&[&certificate], &certificate, name), Ok(()));
        }
        let refused = verify(&[&certificate], &certificate, "agents.example").unwrap_err();
        assert!(matches!(
            refused,
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
        ));
        let other = self_signed(|_| {});
        let Error::InvalidCertificate(refused) = verify(&[&other], &certificate, "localhost").unwrap_err() else {
            unreachable!("a certificate is refused as a certificate")
        };
        assert!(is_authority_as_server(&refused), "another certificate with the same name");
    }

    #[test]
    fn validity_of_the_named_certificate_is_checked() {
        let expired = self_signed(|params| {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        });
        let refused = verify(&[&expired], &expired, "localhost").unwrap_err();
        assert!(matches!(
            refused,
            Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })
        ));
        let future = self_signed(|params| {
            (params.not_before, params.not_after) = (date_time_ymd(2990, 1, 1), date_time_ymd(2999, 1, 1));
        });
        let refused = verify(&[&future], &future, "localhost").unwrap_err();
        assert!(matches!(
            refused,
            Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
        ));
    }
}
