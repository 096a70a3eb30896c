//! `aaep keys`, `aaep manifest` and `aaep token` as a person or a script meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use aaep_keys::{KeySet, Role, StaticTokens, TokenError, TokenVerifier, verify_manifest};
use aaep_proto::time::Timestamp;
use aaep_test::{aaep, example};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory of its own, in which the command runs.
struct Place(TempDir);

struct Seen {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn see(&self, args: &[&str], input: &str) -> Seen {
        let mut child = Command::new(aaep())
            .current_dir(self.path())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The command may stop reading before all is written; that is for the assertions to judge.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Seen {
            code: output.status.code().expect("it ends by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What it prints when all is well.
    fn out(&self, args: &[&str], input: &str) -> String {
        let seen = self.see(args, input);
        assert_eq!((seen.code, seen.err.as_str()), (0, ""), "{args:?}: {}", seen.out);
        seen.out
    }

    fn json(&self, args: &[&str], input: &str) -> Value {
        serde_json::from_str(&self.out(args, input)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn keys(&self, name: &str) -> KeySet {
        KeySet::load(&self.path().join(name)).unwrap()
    }
}

fn manifest() -> String {
    example("messages.ndjson").pop().unwrap()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

#[test]
fn a_new_key_has_two_files_and_is_never_overwritten() {
    let place = Place::new();
    let said = place.out(&["keys", "new", "key.pem"], "");
    let jwks = place.read("key.pem.pub.json");
    let kid = place.keys("key.pem.pub.json").iter().next().unwrap().kid().unwrap().to_owned();
    assert!(said.contains("key.pem.pub.json") && said.contains(&kid) && said.lines().count() == 3, "{said}");
    let before = place.read("key.pem");
    assert!(before.starts_with("-----BEGIN PRIVATE KEY-----") && !said.contains("BEGIN"));
    let seen = place.see(&["keys", "new", "key.pem"], "");
    assert_eq!((seen.code, seen.out.as_str()), (2, ""));
    assert_eq!(seen.err, "aaep: key.pem exists already; choose another name or remove it first\n");
    assert_eq!((place.read("key.pem"), place.read("key.pem.pub.json")), (before, jwks));
}

#[cfg(unix)]
#[test]
fn a_private_key_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    let path = place.path().join("key.pem");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    for args in [
        &["keys", "show", "key.pem"][..],
        &["keys", "jwks", "key.pem"],
        &["manifest", "sign", "--key", "key.pem"],
        &["token", "new", "--key", "key.pem", "--subject", "reader"],
    ] {
        let seen = place.see(args, "");
        assert_eq!((seen.code, seen.out.as_str()), (2, ""), "{args:?}");
        assert!(seen.err.contains("mode 644") && seen.err.lines().count() == 1, "{}", seen.err);
    }
}

/// If the public file cannot be written there is no private one either, so that the next attempt works.
#[test]
fn a_key_pair_is_written_whole_or_not_at_all() {
    let place = Place::new();
    place.write("key.pem.pub.json", "mine");
    let seen = place.see(&["keys", "new", "key.pem"], "");
    assert_eq!(seen.code, 2);
    assert!(seen.err.starts_with("aaep: key.pem.pub.json exists already"), "{}", seen.err);
    assert!(!place.path().join("key.pem").exists());
    assert_eq!(place.read("key.pem.pub.json"), "mine");
}

#[test]
fn keys_of_each_algorithm_are_made_and_shown() {
    let place = Place::new();
    for (alg, name, kty) in [("es256", "ES256", "EC"), ("eddsa", "EdDSA", "OKP"), ("rs256", "RS256", "RSA")] {
        let made = place.json(&["keys", "new", "--json", "--alg", alg, alg], "");
        assert_eq!((made["alg"].as_str(), made["private"].as_str()), (Some(name), Some(alg)));
        let shown = place.json(&["keys", "show", alg], "");
        assert_eq!((&shown["kid"], &shown["alg"], &shown["kty"]), (&made["kid"], &made["alg"], &json!(kty)));
        assert!(shown.get("d").is_none());
        // The public forms show the same key.
        let public = made["public"].as_str().unwrap();
        assert_eq!(place.json(&["keys", "show", public], ""), shown);
        let pem = place.out(&["keys", "show", "--pem", alg], "");
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{pem}");
        place.write("public.pem", &pem);
        assert_eq!(place.json(&["keys", "show", "public.pem"], ""), shown);
    }
}

#[test]
fn a_set_of_keys_carries_a_rotation() {
    let place = Place::new();
    place.out(&["keys", "new", "old.pem"], "");
    place.out(&["keys", "new", "--alg", "eddsa", "new.pem"], "");
    let jwks = place.out(&["keys", "jwks", "new.pem", "old.pem.pub.json", "old.pem"], "");
    place.write("both.json", &jwks);
    assert_eq!(place.keys("both.json").len(), 2);
    for key in ["old.pem", "new.pem"] {
        let signed = place.out(&["manifest", "sign", "--key", key], &manifest());
        assert_eq!(place.see(&["manifest", "verify", "--keys", "both.json"], &signed).code, 0);
        let only = if key == "old.pem" { "new.pem.pub.json" } else { "old.pem.pub.json" };
        assert_eq!(place.see(&["manifest", "verify", "--keys", only], &signed).code, 1);
    }
}

#[test]
fn a_manifest_is_signed_and_verified() {
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    place.write("manifest.json", &manifest());
    let signed = place.out(&["manifest", "sign", "--key", "key.pem", "manifest.json"], "");
    let verified = verify_manifest(signed.trim_end(), &place.keys("key.pem.pub.json")).unwrap();
    assert_eq!(verified.manifest.agent_id, "harbour-bank-helper");
    place.write("signed", &signed);
    let verify = |more: &[&str]| place.see(&[&["manifest", "verify", "--keys", "key.pem.pub.json"], more].concat(), "");
    let seen = verify(&["signed"]);
    assert_eq!((seen.code, seen.err.as_str()), (0, ""));
    assert!(seen.out.starts_with("The manifest of harbour-bank-helper was signed with ES256 by key "), "{}", seen.out);
    let line: Value = serde_json::from_str(&verify(&["--json", "signed"]).out).unwrap();
    assert_eq!((line["valid"].as_bool(), line["kid"].as_str()), (Some(true), Some(verified.key.as_str())));
    assert_eq!(line["manifest"], serde_json::from_str::<Value>(&manifest()).unwrap());
    assert_eq!(verify(&["--agent-id", "harbour-bank-helper", "signed"]).code, 0);
    let seen = verify(&["--agent-id", "harbor-bank-helper", "signed"]);
    assert_eq!((seen.code, seen.out.as_str()), (1, ""));
    assert!(seen.err.contains("expected \"harbor-bank-helper\""), "{}", seen.err);
}

#[test]
fn a_bad_signature_is_no() {
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    place.out(&["keys", "new", "other.pem"], "");
    let signed = place.out(&["manifest", "sign", "--key", "key.pem", "-"], &manifest());
    let token = place.out(&["token", "new", "--key", "key.pem", "--subject", "reader"], "");
    let changed = signed.replacen(".eyJ", ".eyK", 1);
    assert_ne!(changed, signed);
    for (keys, input, fault) in [
        ("key.pem.pub.json", changed.as_str(), "bad-signature"),
        ("other.pem.pub.json", &signed, "unknown-kid"),
        ("key.pem.pub.json", &manifest(), "malformed"),
        ("key.pem.pub.json", "", "malformed"),
        ("key.pem.pub.json", "eyJhbGciOiJub25lIn0.e30.", "alg-none"),
        ("key.pem.pub.json", &token, "not-a-manifest"),
    ] {
        let seen = place.see(&["manifest", "verify", "--json", "--keys", keys], input);
        assert_eq!((seen.code, seen.err.as_str()), (1, ""), "{input}");
        let line: Value = serde_json::from_str(&seen.out).unwrap();
        assert_eq!((line["valid"].as_bool(), line["fault"].as_str()), (Some(false), Some(fault)), "{input}");
        let seen = place.see(&["manifest", "verify", "--keys", keys], input);
        assert_eq!((seen.code, seen.out.as_str(), seen.err.lines().count()), (1, "", 1), "{input}");
    }
}

#[test]
fn only_a_valid_manifest_is_signed() {
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    for input in ["{}", "", "not json", &example("messages.ndjson")[0]] {
        let seen = place.see(&["manifest", "sign", "--key", "key.pem"], input);
        assert_eq!((seen.code, seen.out.as_str()), (1, ""), "{input}");
        assert!(seen.err.starts_with("aaep: -: this is not a manifest: ") && seen.err.lines().count() == 1);
    }
}

#[test]
fn a_new_token_opens_the_server_it_is_for() {
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    let ours = TokenVerifier::new(place.keys("key.pem.pub.json"), "aaep", "aaep");
    let token = place.out(&["token", "new", "--key", "key.pem", "--subject", "reader-7"], "");
    let identity = ours.verify(token.trim_end(), now()).unwrap();
    assert_eq!((identity.principal.as_str(), identity.roles), ("reader-7", [Role::Subscribe, Role::Reply].into()));
    assert_eq!(ours.verify(token.trim_end(), now().plus_seconds(3600 + 60)), Err(TokenError::Expired));

    let args = ["token", "new", "--key", "key.pem", "--subject", "agent", "--role", "produce"];
    let more = ["--audience", "hub", "--issuer", "https://id.example", "--expires", "2d", "--json"];
    let made = place.json(&[&args[..], &more].concat(), "");
    let token = made["token"].as_str().unwrap();
    let hub = TokenVerifier::new(place.keys("key.pem.pub.json"), "https://id.example", "hub");
    assert!(hub.verify(token, now().plus_seconds(47 * 3600)).unwrap().may(Role::Produce));
    assert_eq!(ours.verify(token, now()), Err(TokenError::WrongIssuer));
    let expires: Timestamp = made["expires_at"].as_str().unwrap().parse().unwrap();
    assert!(expires > now().plus_seconds(47 * 3600) && expires <= now().plus_seconds(48 * 3600));
}

#[test]
fn a_static_token_and_its_line_belong_together() {
    let place = Place::new();
    let seen = place.see(&["token", "static", "--subject", "kitchen", "--role", "audit"], "");
    assert_eq!(seen.code, 0);
    let secret = seen.out.trim_end();
    // Standard error can be appended to the token file as it is.
    let tokens = StaticTokens::parse(&seen.err).unwrap();
    let identity = tokens.find(secret).unwrap();
    assert_eq!((identity.principal.as_str(), &identity.roles), ("kitchen", &[Role::Audit].into()));
    assert!(!seen.err.contains(secret));

    let made = place.json(&["token", "static", "--subject", "hall", "--json"], "");
    let tokens = StaticTokens::parse(made["line"].as_str().unwrap()).unwrap();
    assert_eq!(tokens.find(made["token"].as_str().unwrap()).unwrap().principal, "hall");
    assert_eq!(tokens.find(secret), None);
}

#[test]
fn mistakes_are_two_and_say_what_to_do() {
    let place = Place::new();
    place.out(&["keys", "new", "key.pem"], "");
    place.write("text", "hello");
    // Closed to others, as a key file should be: the mistake is what is in it.
    std::fs::copy(place.path().join("key.pem"), place.path().join("junk")).unwrap();
    place.write("junk", "hello");
    for (args, says) in [
        (&["keys"][..], "Usage"),
        (&["keys", "new"], "<FILE>"),
        (&["keys", "new", "--alg", "hs256", "x"], "es256, eddsa, rs256"),
        (&["keys", "new", "no/such/place"], "no/such/place does not exist"),
        (&["keys", "show", "nowhere"], "nowhere does not exist"),
        (&["keys", "show", "."], "is a directory"),
        (&["keys", "show", "text"], "is not a set of public keys"),
        (&["keys", "jwks"], "<FILES>"),
        (&["manifest"], "Usage"),
        (&["manifest", "sign"], "--key"),
        (&["manifest", "sign", "--key", "junk"], "is not a key in PEM form"),
        (&["manifest", "sign", "--key", "key.pem", "nowhere"], "nowhere does not exist"),
        (&["manifest", "verify", "signed"], "--keys"),
        (&["manifest", "verify", "--keys", "key.pem"], "holds a private key"),
        (&["manifest", "verify", "--keys", "text"], "is not a set of public keys"),
        (&["token"], "Usage"),
        (&["token", "new", "--key", "key.pem"], "--subject"),
        (&["token", "new", "--key", "key.pem", "--subject", ""], "must have 1 to 256 characters"),
        (&["token", "new", "--key", "key.pem", "--subject", "x", "--role", "cook"], "unknown role"),
        (&["token", "new", "--key", "key.pem", "--subject", "x", "--expires", "soon"], "such as 1h"),
        (&["token", "new", "--key", "key.pem", "--subject", "x", "--expires", "999d"], "must be at most 366d"),
        (&["token", "static", "--subject", "two words"], "must be one word"),
        (&["token", "static"], "--subject"),
    ] {
        let seen = place.see(args, "");
        assert_eq!((seen.code, seen.out.as_str()), (2, ""), "{args:?}: {}", seen.err);
        assert!(seen.err.contains(says), "{args:?}: {}", seen.err);
    }
}
