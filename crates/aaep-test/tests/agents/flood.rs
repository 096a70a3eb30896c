//! An agent that writes as fast as it can: no text is lost, memory stays bounded, and a slow subscriber slows it down.

use std::time::Duration;

use super::harness::{AaepProcess, DEADLINE, Subscriber};

/// Lines of the flood.
const LINES: usize = 100_000;

/// Maximum memory of the process: far above what it needs, far below the 60 MB of all events of the flood.
const MAX_PEAK_KIB: u64 = 48 * 1024;

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
emit(type="session.completed", summary_normal="That was all.")
"#
    )
}

fn all_text() -> String {
    (0..LINES).map(|number| format!("This is line number {number}.\n")).collect()
}

/// Returns the peak memory of the process, or `None` after it has exited.
fn peak_kib(process: &AaepProcess) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns how many lines the agent has written.
fn lines(process: &AaepProcess) -> usize {
    let text = std::fs::read_to_string(process.dir.path().join("lines")).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Reads to the end of the session. Critical events may overtake text, so nothing depends on their place.
async fn read_all(subscriber: &mut Subscriber, process: &AaepProcess) {
    let (mut heard, mut complete, mut completed, mut events, mut peak) = (String::new(), false, false, 0, 0);
    while !(complete && completed) {
        let event = subscriber.next().await.expect("the text is incomplete");
        events += 1;
        // The process may exit before its last events are received.
        if events % 1000 == 0 {
            peak = peak_kib(process).unwrap_or(peak);
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
    assert!((1..MAX_PEAK_KIB).contains(&peak), "{peak} KiB");
    assert_eq!(heard.len(), all_text().len());
    assert!(heard == all_text(), "the text differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_text_is_delivered_completely_in_bounded_memory() {
    let mut process = AaepProcess::python(&script());
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    read_all(&mut subscriber, &process).await;
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_that_stops_reading_slows_the_agent_down() {
    let mut process = AaepProcess::python(&script());
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    // The subscriber does not read, so the agent blocks when all buffers are full.
    let until = std::time::Instant::now() + DEADLINE;
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        assert!(std::time::Instant::now() < until, "the agent never blocks");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = lines(&process);
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
    }
    assert!(before < LINES, "the agent wrote everything although the subscriber does not read");
    let peak = peak_kib(&process).expect("the process is running");
    assert!(peak < MAX_PEAK_KIB, "{peak} KiB");
    // Reading continues, and no text is lost.
    read_all(&mut subscriber, &process).await;
    assert_eq!(lines(&process), LINES);
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
}
