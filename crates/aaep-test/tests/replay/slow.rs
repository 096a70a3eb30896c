//! A capture that does not keep up is disconnected. Its recording has no gap, and it reports that the end is missing.

use std::time::Duration;

use aaep_server::{Config, Limits, Server};

use crate::harness::{PATIENCE, RecordingDir, lines, read, start};

/// More than the kernel buffers for a reader that does not read.
const TEXT: usize = 64 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_capture_reports_an_incomplete_recording() {
    let dir = RecordingDir::new();
    let limits = Limits { requests_per_second: 100_000, write_seconds: 1, silence_seconds: 600, ..Limits::default() };
    let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), limits, ..Config::default() };
    config.transports.unix_path = Some(dir.path("socket"));
    config.transports.grpc = Some("127.0.0.1:0".parse().unwrap());
    let producer = Server::producer(&config);
    let server = Server::new(config, producer.clone()).start().await.unwrap();
    let urls = [
        format!("http://{}", server.address()),
        format!("ws://{}", server.address()),
        format!("unix:{}", dir.name("socket")),
        format!("grpc://{}", server.grpc_address().unwrap()),
    ];
    let name = |index: usize| format!("y{index}");
    let captures: Vec<_> =
        urls.iter().enumerate().map(|(index, url)| start(&["capture", url, "-o", &dir.name(&name(index))])).collect();
    let waiting = tokio::time::timeout(PATIENCE, async {
        while producer.subscriber_counts().await.subscriptions < urls.len() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let session = producer.session("Talking.").await.unwrap();
        while (0..urls.len()).any(|index| lines(&dir.path(&name(index))) == 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        captures.iter().for_each(|capture| capture.signal("STOP"));
        let output = session.output().await.unwrap();
        let text = "All of this is said. ".repeat(750);
        // The producer waits for slow subscribers until they are disconnected.
        for _ in 0..TEXT / text.len() {
            output.write(text.as_str()).await.unwrap();
        }
        output.finish().await.unwrap();
        session.complete("Done.").await.unwrap();
    });
    waiting.await.expect("the agent is not held up for ever");
    for (index, capture) in captures.into_iter().enumerate() {
        capture.signal("CONT");
        let left = capture.end();
        let written = read(&dir.path(&name(index)));
        let told = format!("the recording is incomplete after {} events", written.len());
        assert_eq!(left.code, Some(1), "{}: {}", urls[index], left.err);
        assert!(left.err.contains(&told), "{}: {}", urls[index], left.err);
        let mut position = 0;
        for event in written.iter().filter(|event| event["type"] == "aaep:agent.output.streaming") {
            assert_eq!(event["position"].as_u64(), Some(position), "{}", urls[index]);
            position += event["chunk"].as_str().unwrap().chars().count() as u64;
        }
        assert!(position > 0 && written.iter().all(|event| event["type"] != "aaep:agent.session.completed"));
    }
    server.stop("The test is over.").await;
}
