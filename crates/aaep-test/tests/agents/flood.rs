//! An agent that writes as fast as it can: nothing is lost, nothing grows, and a slow reader holds it up.

use std::time::Duration;

use super::harness::{DEADLINE, Served, Subscriber};

/// Lines of the flood.
const LINES: usize = 100_000;

/// Far above what is needed and far below what a flood kept in memory would take: its events have some 60 megabytes.
const MOST_KIB: u64 = 48 * 1024;

fn script() -> String {
    format!(
        r#"
go()
for number in range({LINES}):
    sys.stdout.write('{{"type":"output.streaming","output_id":"all","chunk":"This is line number %d.\\n"}}\n' % number)
    if number % 1000 == 0:
        note("lines", number)
sys.stdout.write('{{"type":"output.streaming","output_id":"all","chunk":"","complete":true}}\n')
sys.stdout.flush()
note("lines", {LINES})
tell(type="session.completed", summary_normal="That was all.")
"#
    )
}

fn all_text() -> String {
    (0..LINES).map(|number| format!("This is line number {number}.\n")).collect()
}

/// The most memory that the process has used so far; nothing after it has ended.
fn peak_kib(served: &Served) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// How many lines the agent could write so far.
fn lines(served: &Served) -> usize {
    let text = std::fs::read_to_string(served.dir.path().join("lines")).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Reads to the end of the session. Critical events may overtake text, so nothing depends on their place.
async fn read_all(subscriber: &mut Subscriber, served: &Served) {
    let (mut heard, mut complete, mut completed, mut events, mut peak) = (String::new(), false, false, 0, 0);
    while !(complete && completed) {
        let event = subscriber.next().await.expect("the text is not complete");
        events += 1;
        // The process may end while the last of what it wrote is still on its way.
        if events % 1000 == 0 {
            peak = peak_kib(served).unwrap_or(peak);
        }
        match event["type"].as_str() {
            Some("aaep:agent.output.streaming") => {
                assert_eq!(event["position"].as_u64(), Some(heard.len() as u64), "in order, without a gap");
                heard.push_str(event["chunk"].as_str().unwrap());
                complete |= event["complete"] == true;
            }
            Some("aaep:agent.session.completed") => completed = true,
            _ => {}
        }
    }
    assert!((1..MOST_KIB).contains(&peak), "{peak} KiB");
    assert_eq!(heard.len(), all_text().len());
    assert!(heard == all_text(), "the text is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_arrives_whole_and_memory_stays_flat() {
    let mut served = Served::python(&script());
    let mut subscriber = Subscriber::new(&served.url, None).await;
    served.go();
    read_all(&mut subscriber, &served).await;
    subscriber.rest().await;
    assert_eq!(served.end().await.code(), Some(0), "{}", served.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_holds_up_the_agent() {
    let mut served = Served::python(&script());
    let mut subscriber = Subscriber::new(&served.url, None).await;
    served.go();
    // Nobody reads. The agent stands still when all that lies between is full.
    let until = std::time::Instant::now() + DEADLINE;
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        assert!(std::time::Instant::now() < until, "it never stands still");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = lines(&served);
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
    }
    assert!(before < LINES, "nobody reads, and yet the agent wrote everything");
    let peak = peak_kib(&served).expect("it is held up, so it is there");
    assert!(peak < MOST_KIB, "{peak} KiB");
    // Somebody reads again, and has lost nothing.
    read_all(&mut subscriber, &served).await;
    assert_eq!(lines(&served), LINES);
    subscriber.rest().await;
    assert_eq!(served.end().await.code(), Some(0), "{}", served.err.text());
}
