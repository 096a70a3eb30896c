//! TLS: trusted authorities, client certificates, and refusal of plain connections.

use std::sync::Arc;

use aaep_client::{ConnectError, ConnectOptions, EndReason, HandshakePolicy, Subscriber, TlsIdentity, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::harness::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate, key)
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// Starts a producer with a certificate of this authority, which can require client certificates of it.
    async fn producer(&self, demands: bool) -> FakeHttp {
        let (certificate, key) = self.issue("localhost");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = if demands {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        FakeHttp::with(move |tcp| {
            let accepting = acceptor.accept(tcp);
            async move { accepting.await.ok() }
        })
        .await
    }
}

fn trusting(authority: Option<&Authority>, identity: Option<TlsIdentity>) -> ConnectOptions {
    let authorities = authority.map(Authority::pem).unwrap_or_default();
    let mut tls = TlsOptions::new().authorities(authorities).disable_system_roots();
    tls.identity = identity;
    options().handshake(HandshakePolicy::Always).tls(tls)
}

#[tokio::test]
async fn trusted_host_is_accepted_and_an_untrusted_one_ends_the_subscriber() {
    let authority = Authority::new();
    let mut producer = authority.producer(false).await;
    let url = format!("https://localhost:{}", producer.port);
    let mut subscriber = Subscriber::connect(&url, trusting(Some(&authority), None)).unwrap();
    let _stream = producer.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    let mut subscriber = Subscriber::connect(&url, trusting(None, None)).unwrap();
    let EndReason::Refused(why) = subscriber.wait_for("the end", end).await else { panic!() };
    assert!(why.contains("not trusted"), "{why}");
    let other = Authority::new();
    let mut subscriber = Subscriber::connect(&url, trusting(Some(&other), None)).unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
    // The certificate is for localhost, not for the address.
    let url = format!("https://127.0.0.1:{}", producer.port);
    let mut subscriber = Subscriber::connect(&url, trusting(Some(&authority), None)).unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
}

#[tokio::test]
async fn client_certificate_is_presented() {
    let authority = Authority::new();
    let mut producer = authority.producer(true).await;
    let url = format!("https://localhost:{}", producer.port);
    let (certificate, key) = authority.issue("reader");
    let identity = TlsIdentity { chain: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() };
    let mut subscriber = Subscriber::connect(&url, trusting(Some(&authority), Some(identity))).unwrap();
    let _stream = producer.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
}

#[tokio::test]
async fn plaintext_to_other_machines_is_refused() {
    for url in ["http://agents.example", "ws://192.0.2.1:80", "http://localhost.example"] {
        let refused = Subscriber::connect(url, options().bearer("secret"));
        assert!(matches!(refused, Err(ConnectError::Insecure(_))), "{url}");
    }
    let nonsense = b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n";
    let bad = TlsOptions::new().authorities(nonsense.to_vec());
    assert!(matches!(Subscriber::connect("https://localhost", options().tls(bad)), Err(ConnectError::Tls(_))));
    assert!(matches!(
        Subscriber::connect("https://localhost", options().bearer("a\nb")),
        Err(ConnectError::InvalidToken)
    ));
}
