//! What gRPC has besides the stream: health, reflection, manifest, deadlines, statuses, credentials, encryption.

use std::sync::Arc;
use std::time::Duration;

use aaep_grpc::v1::GetManifestRequest;
use aaep_grpc::v1::aaep_service_client::AaepServiceClient;
use aaep_server::TlsConfig;
use futures_util::stream;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::{server_reflection_request, server_reflection_response};

use crate::clients::{Client, Grpc};
use crate::harness::*;

async fn channel(test: &TestServer) -> Channel {
    Endpoint::from_shared(test.grpc()).unwrap().connect().await.unwrap()
}

#[tokio::test]
async fn health_is_served_until_shutdown() {
    let test = TestServer::start().await;
    let mut client = HealthClient::new(channel(&test).await);
    let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", "aaep.v1.AaepService"] {
        let answer = client.check(ask(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    assert_eq!(client.check(ask("unknown")).await.unwrap_err().code(), Code::NotFound);
    let mut watching = client.watch(ask("aaep.v1.AaepService")).await.unwrap().into_inner();
    assert_eq!(watching.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let stopping = tokio::spawn(test.server.stop("Going home."));
    // An open Watch call does not prevent the shutdown.
    while let Ok(Some(_)) = soon("the end", watching.message()).await {}
    drop(client);
    soon("the server's end", stopping).await.unwrap();
}

#[tokio::test]
async fn reflection_describes_the_service() {
    let test = TestServer::start().await;
    let mut client = ServerReflectionClient::new(channel(&test).await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut answers = client.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
    let answer = soon("an answer", answers.message()).await.unwrap().unwrap().message_response.unwrap();
    let server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"aaep.v1.AaepService") && names.contains(&"grpc.health.v1.Health"), "{names:?}");
}

#[tokio::test]
async fn deadline_ends_the_call() {
    let test = TestServer::start().await;
    let mut client = Grpc::channel(&test).await;
    let mut timed = Grpc::call(&mut client, |mut request| {
        request.set_timeout(Duration::from_secs(3600));
        request
    })
    .await
    .unwrap();
    timed.send(&replying_request()).await;
    assert_eq!(kind_of(&timed.receive().await.unwrap()), "subscription.accepted", "an hour is not over yet");
    // Set manually, so that the server enforces the deadline, not the client.
    let mut late = Grpc::call(&mut client, |mut request| {
        request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
        request
    })
    .await
    .unwrap();
    late.send(&replying_request()).await;
    late.rest().await;
    let code = late.status.unwrap().code();
    assert!([Code::DeadlineExceeded, Code::Cancelled].contains(&code), "{code:?}");
    test.subscriptions(1).await;
    let wrong = Grpc::call(&mut client, |mut request| {
        request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
        request
    });
    assert_eq!(wrong.await.err().unwrap().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn calls_end_with_the_right_status() {
    let test = TestServer::start().await;
    let mut rejected = Grpc::connect(&test).await;
    let mut wrong = replying_request();
    wrong["aaep_version"] = json!("9.0.0");
    rejected.send(&wrong).await;
    assert_eq!(kind_of(&rejected.receive().await.unwrap()), "subscription.rejected");
    assert_eq!(rejected.receive().await, None);
    assert_eq!(rejected.status.unwrap().code(), Code::InvalidArgument);
    let (mut large, _) = Grpc::subscribed(&test, &replying_request()).await;
    large.send_text("subscription.close", &" ".repeat(1024 * 1024 + 1)).await;
    large.rest().await;
    assert_eq!(large.status.unwrap().code(), Code::ResourceExhausted);
    let (mut closed, id) = Grpc::subscribed(&test, &replying_request()).await;
    closed.send(&json!({"type": "subscription.close", "subscription_id": id})).await;
    assert_eq!(closed.receive().await, None);
    assert!(closed.status.is_none(), "a good end is OK");
}

/// Starts a resumable call with this metadata.
async fn call(
    client: &mut AaepServiceClient<Channel>,
    metadata: &[(&'static str, &str)],
) -> Result<Grpc, tonic::Status> {
    let add = |mut request: Request<()>| {
        metadata.iter().for_each(|(name, value)| drop(request.metadata_mut().insert(*name, value.parse().unwrap())));
        request
    };
    Grpc::call(client, add).await
}

#[tokio::test]
async fn resumed_stream_delivers_its_open_question_once() {
    let test = TestServer::start().await;
    let mut client = Grpc::channel(&test).await;
    let mut stream = call(&mut client, &[("aaep-resumable", "yes")]).await.unwrap();
    stream.send(&replying_request()).await;
    let accepted = stream.receive().await.unwrap();
    let subscription = accepted["subscription_id"].as_str().unwrap().to_owned();
    let agent = asking(test.producer());
    let mut last = String::new();
    let question = loop {
        let event = stream.receive().await.unwrap();
        if kind_of(&event) == "awaiting.confirmation" {
            break event;
        }
        last = event["event_id"].as_str().unwrap().to_owned();
    };
    // The stream is lost as if the caller had not received the question.
    drop(stream);
    let other = test.producer().session("Something else.").await.unwrap();
    let back = [("aaep-subscription-id", subscription.as_str()), ("aaep-last-event-id", last.as_str())];
    let mut stream = call(&mut client, &back).await.unwrap();
    let again = stream.receive().await.unwrap();
    assert_eq!((kind_of(&again), &again["event_id"]), ("awaiting.confirmation", &question["event_id"]));
    let mut kinds = Vec::new();
    while !kinds.contains(&"session.started".to_owned()) {
        kinds.push(kind_of(&stream.receive().await.unwrap()).to_owned());
    }
    assert!(!kinds.contains(&"awaiting.confirmation".to_owned()), "{kinds:?}");
    stream.send(&reply(&subscription, &again, "accept")).await;
    assert!(soon("the decision", agent).await.unwrap(), "the default was not applied");
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 1);
    drop(other);
    // A closed subscription cannot be resumed, nor an unknown one.
    stream.send(&json!({"type": "subscription.close", "subscription_id": subscription})).await;
    stream.rest().await;
    for (id, code) in
        [(subscription.as_str(), Code::NotFound), ("sub_unknown", Code::NotFound), ("?", Code::InvalidArgument)]
    {
        assert_eq!(call(&mut client, &[("aaep-subscription-id", id)]).await.err().unwrap().code(), code, "{id}");
    }
}

fn token_file(directory: &tempfile::TempDir) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.path().join("tokens");
    let lines = "ada-secret-ada-secret-ada-secret ada subscribe,reply\nmon-secret-mon-secret-mon-secret mon audit\n";
    std::fs::write(&path, lines).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn bearing(token: &str) -> impl FnOnce(Request<()>) -> Request<()> {
    let value = format!("Bearer {token}").parse().unwrap();
    move |mut request| {
        request.metadata_mut().insert("authorization", value);
        request
    }
}

#[tokio::test]
async fn credentials_are_required() {
    let directory = private();
    let test = TestServer::with(|config| config.auth.tokens = Some(token_file(&directory))).await;
    let mut client = Grpc::channel(&test).await;
    let refused = [Grpc::call(&mut client, |request| request).await, Grpc::call(&mut client, bearing("wrong")).await];
    for refused in refused {
        let mut stranger = refused.unwrap();
        let rejected = stranger.receive().await.unwrap();
        assert_eq!(rejected["reason_code"], "authentication_required", "{rejected}");
        assert_eq!(stranger.receive().await, None);
        assert_eq!(stranger.status.unwrap().code(), Code::Unauthenticated);
    }
    let mut monitor = Grpc::call(&mut client, bearing("mon-secret-mon-secret-mon-secret")).await.unwrap();
    monitor.send(&replying_request()).await;
    let rejected = monitor.receive().await.unwrap();
    assert_eq!(rejected["reason_code"], "authorization_denied", "{rejected}");
    assert_eq!(monitor.receive().await, None);
    assert_eq!(monitor.status.unwrap().code(), Code::PermissionDenied);
    let mut ada = Grpc::call(&mut client, bearing("ada-secret-ada-secret-ada-secret")).await.unwrap();
    ada.send(&replying_request()).await;
    assert_eq!(kind_of(&ada.receive().await.unwrap()), "subscription.accepted");
    client.get_manifest(GetManifestRequest {}).await.expect("the manifest is for everyone");
}

#[tokio::test]
async fn revoked_token_ends_its_stream_as_unauthenticated() {
    let directory = private();
    let path = token_file(&directory);
    let test = TestServer::with(|config| config.auth.tokens = Some(path.clone())).await;
    let mut client = Grpc::channel(&test).await;
    let mut ada = Grpc::call(&mut client, bearing("ada-secret-ada-secret-ada-secret")).await.unwrap();
    ada.send(&replying_request()).await;
    assert_eq!(kind_of(&ada.receive().await.unwrap()), "subscription.accepted");
    std::fs::write(&path, "mon-secret-mon-secret-mon-secret mon audit\n").unwrap();
    let told = ada.receive().await.unwrap();
    assert_eq!((kind_of(&told), &told["reason_code"]), ("subscription.close", &json!("authentication_required")));
    assert_eq!(ada.receive().await, None);
    assert_eq!(ada.status.unwrap().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn too_many_calls_are_refused() {
    let test = TestServer::with(|config| config.limits.requests_per_second = 1).await;
    let mut client = Grpc::channel(&test).await;
    let mut calls = Vec::new();
    let mut refused = soon("a refusal", async {
        loop {
            let mut call = Grpc::call(&mut client, |request| request).await.unwrap();
            call.send(&replying_request()).await;
            let answer = call.receive().await.unwrap();
            if kind_of(&answer) == "subscription.rejected" {
                assert_eq!((&answer["reason_code"], &answer["retry_after_seconds"]), (&json!("rate_limit"), &json!(1)));
                return call;
            }
            calls.push(call);
        }
    })
    .await;
    assert_eq!(refused.receive().await, None);
    assert_eq!(refused.status.unwrap().code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn call_for_an_unknown_host_is_refused() {
    let test = TestServer::start().await;
    let endpoint = Endpoint::from_shared(test.grpc()).unwrap().origin("http://evil.example".parse().unwrap());
    let mut client = AaepServiceClient::new(endpoint.connect().await.unwrap());
    assert!(client.get_manifest(GetManifestRequest {}).await.is_err());
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(authority: &Authority, purpose: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

/// Opens a channel over TLS, with or without a client certificate.
async fn secure(
    test: &TestServer,
    trusted: &Authority,
    own: Option<(rcgen::Certificate, KeyPair)>,
) -> Result<Channel, tonic::transport::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (connector, address) = (TlsConnector::from(Arc::new(config)), test.server.grpc_address().unwrap());
    let connect = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connect).await
}

#[tokio::test]
async fn client_and_server_certificates_are_verified() {
    let directory = private();
    let (servers, clients) = (authority(), authority());
    let (certificate, key) = issue(&servers, ExtendedKeyUsagePurpose::ServerAuth);
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let tls = TlsConfig {
        cert: file("cert.pem", certificate.pem()),
        key: file("key.pem", key.serialize_pem()),
        client_ca: Some(file("clients.pem", clients.pem())),
    };
    let test = TestServer::with(|config| config.tls = Some(tls)).await;
    let known = issue(&clients, ExtendedKeyUsagePurpose::ClientAuth);
    let mut client = AaepServiceClient::new(secure(&test, &servers, Some(known)).await.unwrap());
    let mut call = Grpc::call(&mut client, |request| request).await.unwrap();
    call.send(&replying_request()).await;
    assert_eq!(kind_of(&call.receive().await.unwrap()), "subscription.accepted");
    for stranger in [None, Some(issue(&servers, ExtendedKeyUsagePurpose::ClientAuth))] {
        // With TLS 1.3 the handshake may be rejected after the client has connected.
        if let Ok(channel) = secure(&test, &servers, stranger).await {
            let mut client = AaepServiceClient::new(channel);
            assert!(client.get_manifest(GetManifestRequest {}).await.is_err());
        }
    }
    assert!(secure(&test, &authority(), None).await.is_err(), "a server that is not trusted");
}
