//! The first event of a user whose engine was put away, beside that of a user whose engine was not.

use std::time::{Duration, Instant};

use crate::connect::Identity;
use crate::process::{Contestant, Cores, ServerProcess, ServerSetup, aaep_output};
use crate::report::quantile;
use crate::tokens::TokenIssuer;
use crate::wire::Scratch;

/// Users whose first event is measured.
const USERS: usize = 300;

/// Settings that may say after how many seconds an unused engine is put away: section and key.
const IDLE_SETTINGS: [(&str, &str); 3] =
    [("data", "idle_seconds"), ("users", "idle_seconds"), ("limits", "idle_user_seconds")];

/// The first and the last event of a session without an id of its own.
const STARTED: &str = r#"{"type":"session.started","summary_normal":"Measuring."}"#;
const COMPLETED: &str = r#"{"type":"session.completed","summary_normal":"Done."}"#;

pub(crate) fn measure(issuer: &TokenIssuer) {
    println!("\nCold users: from the POST of session.started to its response, {USERS} users, one after the other");
    Cores::Others.pin();
    let setting = idle_setting();
    let data = issuer.dir().join("data");
    let mut setup = ServerSetup::new(issuer, USERS);
    setup.args = vec!["--data".into(), data.into()];
    if let Some(variable) = &setting {
        setup.settings.push((variable.clone(), "1".to_owned()));
    }
    let server = ServerProcess::start(Contestant::Aaep, &setup);
    print("new users", start_sessions(&server, issuer));
    print("again", start_sessions(&server, issuer));
    let Some(variable) = setting else {
        println!("cold: skipped, aaep serve has no setting that puts unused engines away (such as data.idle_seconds)");
        return;
    };
    // Every user must be unused for longer than the setting; engines are put away some time after that.
    std::thread::sleep(Duration::from_secs(5));
    print(&format!("cold, {variable}=1 and five seconds later"), start_sessions(&server, issuer));
}

/// Returns the variable of the setting that puts unused engines away, if there is one.
fn idle_setting() -> Option<String> {
    let config = aaep_output(&["serve", "--print-config"]);
    let mut section = String::new();
    for line in config.lines() {
        if let Some(name) = line.trim_start_matches("# ").strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        }
        let key = line.split(" = ").next().unwrap_or_default();
        if IDLE_SETTINGS.contains(&(section.as_str(), key)) {
            return Some(format!("AAEP_{}__{}", section.to_uppercase(), key.to_uppercase()));
        }
    }
    None
}

/// Starts and ends a session of every user. Returns the times of the first event in microseconds.
fn start_sessions(server: &ServerProcess, issuer: &TokenIssuer) -> Vec<u64> {
    let mut scratch = Scratch::new();
    let measured = (0..USERS).map(|user| {
        let token = issuer.token(user);
        let identity = Identity { contestant: server.contestant, address: server.address, user, token: &token };
        let mut connection = identity.open();
        let start = Instant::now();
        identity.post(&mut connection, STARTED, &mut scratch);
        let time = start.elapsed();
        identity.post(&mut connection, COMPLETED, &mut scratch);
        u64::try_from(time.as_micros()).unwrap()
    });
    measured.collect()
}

fn print(name: &str, mut micros: Vec<u64>) {
    micros.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| quantile(&micros, percent) as f64 / 1000.0);
    println!("{name}: p50 {p50:.2} ms, p99 {p99:.2} ms");
}
