//! TLS as people set it up by hand: a self-signed certificate of openssl, and client certificates.

use std::process::Command;

use aaep_test::Process;

use crate::home::{Home, sees, text};

fn openssl(home: &Home, arguments: &[&str]) {
    let output = Command::new("openssl").current_dir(home.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a certificate as the documentation of servers usually tells to.
fn self_signed(home: &Home, name: &str) {
    let (key, cert) = (format!("{name}.key"), format!("{name}.pem"));
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", names];
    openssl(home, &[&request[..], &["-keyout", &key, "-out", &cert]].concat());
}

fn is_refused(mut listener: Process, why: &str) {
    let lines = listener.rest();
    assert!(lines.iter().any(|line| line.contains(why)), "{lines:#?}");
    assert_eq!(listener.wait().code(), Some(1));
}

#[test]
fn self_signed_certificate_is_trusted_if_it_is_the_named_one() {
    let home = Home::new();
    self_signed(&home, "server");
    self_signed(&home, "other");
    let file = |name: &str| home.path().join(name);
    let (cert, key) = (file("server.pem"), file("server.key"));
    let (_server, url) = home.serve(&[
        "serve",
        "--listen",
        "localhost:0",
        "--no-unix",
        "--tls-cert",
        text(&cert),
        "--tls-key",
        text(&key),
    ]);
    let port = url.rsplit(':').next().unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{port}");
        let health = format!("{url}/healthz");
        let curl =
            Command::new("curl").args(["--silent", "--fail", "--cacert", text(&cert), &health]).output().unwrap();
        assert!(curl.status.success(), "curl accepts it");
        sees(&home.start(&["listen", "--ca", text(&cert), &url]), "Note: Listening to aaep at https://");
    }
    let sockets = format!("wss://localhost:{port}/aaep/v1/ws");
    sees(&home.start(&["listen", "--ca", text(&cert), &sockets]), "Note: Listening to aaep at wss://");
    let why = "the certificate of the host is not trusted: it is self-signed; to trust it, name a file with exactly this \
        certificate as an authority";
    is_refused(home.start(&["listen", "--ca", text(&file("other.pem")), &url]), why);
    is_refused(home.start(&["listen", &url]), why);
}

#[test]
fn listener_presents_its_client_certificate() {
    let home = Home::new();
    self_signed(&home, "server");
    openssl(
        &home,
        &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=CA", "-keyout", "ca.key", "-out", "ca.pem"],
    );
    openssl(
        &home,
        &["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ada", "-keyout", "me.key", "-out", "me.csr"],
    );
    home.file("v3.ext", "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n");
    openssl(
        &home,
        &[
            "x509",
            "-req",
            "-in",
            "me.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "v3.ext",
            "-out",
            "me.pem",
        ],
    );
    let path = |name: &str| text(&home.path().join(name)).to_owned();
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
    let (_server, url) = home.serve(&[&["serve", "--listen", "localhost:0", "--no-unix"][..], &tls].concat());
    let (mine, secret) = (path("me.pem"), path("me.key"));
    let listener = home.start(&["listen", "--ca", &cert, "--cert", &mine, "--key", &secret, &url]);
    sees(&listener, "Note: Listening to aaep at https://");
    let half = home.run(&["listen", "--cert", &mine, &url]);
    assert!(half.code == Some(2) && half.err.contains("--key"), "{}", half.err);
}
