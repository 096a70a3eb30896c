//! Latency of the terminal: from Enter to the reply at the agent, and from the start of `aaep listen` to its first
//! announcement. Reported, not asserted. `cargo bench -p aaep-test --bench listen`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on should stop")]

#[cfg(unix)]
fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(unix::measure());
}

#[cfg(not(unix))]
fn main() {
    println!("This needs a pseudo terminal.");
}

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use aaep::message::Decision;
    use aaep::{Confirmation, Producer};
    use aaep_server::{Config, Layer, Server};
    use aaep_test::aaep;
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use tokio::sync::mpsc;

    /// Questions per transport, and how many are open at the same time. An answer counts only some time after its question
    /// was announced; questions that are open together wait for that once.
    const QUESTIONS: u32 = 100;
    const TOGETHER: u32 = 20;
    /// Number of starts of the command.
    const STARTS: usize = 20;

    /// A process of `aaep listen` with a keyboard.
    struct ListenProcess {
        child: Child,
        keyboard: File,
        lines: mpsc::UnboundedReceiver<String>,
    }

    impl ListenProcess {
        fn start(address: &str) -> ListenProcess {
            let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&keyboard).unwrap();
            unlockpt(&keyboard).unwrap();
            let name = ptsname(&keyboard, Vec::new()).unwrap();
            let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            let place = std::env::temp_dir();
            let mut child = Command::new(aaep())
                .args(["listen", "--sounds", "none", address])
                .env("HOME", &place)
                .env_remove("XDG_RUNTIME_DIR")
                .stdin(Stdio::from(terminal))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let (sender, lines) = mpsc::unbounded_channel();
            std::thread::spawn(move || {
                for line in out.lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
            ListenProcess { child, keyboard: File::from(keyboard), lines }
        }

        async fn sees(&mut self, part: &str) {
            while let Some(line) = self.lines.recv().await {
                if line.contains(part) {
                    return;
                }
            }
            panic!("the listener ended before it said {part:?}");
        }
    }

    impl Drop for ListenProcess {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    pub(super) async fn measure() {
        // A directory that the server creates itself: it opens no socket in a directory that others can access.
        let directory = tempfile::TempDir::new().unwrap();
        let place = directory.path().join("own/bench.sock");
        let mut layer = Layer::default();
        layer.set("listen", "127.0.0.1:0");
        layer.set("agent_id", "bench");
        layer.set("transports.unix_path", place.to_str().unwrap());
        let config = Config::from_layers([layer]).unwrap();
        let producer = Server::producer(&config);
        let server = Server::new(config, producer).start().await.unwrap();
        let http = server.url();
        let addresses = [
            ("SSE and POST", http.clone()),
            ("WebSocket", format!("{}/aaep/v1/ws", http.replace("http://", "ws://"))),
            ("Unix socket", format!("unix:{}", place.display())),
        ];
        for (name, address) in &addresses {
            let times = answers(server.producer(), address).await;
            report(&format!("Enter to the reply at the agent, {name}"), times);
        }
        report("Start of aaep listen to its first announcement", starts(server.producer(), &http).await);
        server.stop("The measurement is over.").await;
        let _ = std::fs::remove_file(place);
    }

    /// Measures from Enter to the reply at the agent.
    async fn answers(producer: &Producer, address: &str) -> Vec<Duration> {
        let mut listener = ListenProcess::start(address);
        listener.sees("Listening to").await;
        let mut times = Vec::new();
        for first in (1..=QUESTIONS).step_by(TOGETHER as usize) {
            let batch = first..first + TOGETHER;
            let mut asking: FuturesUnordered<_> = batch.clone().map(|_| ask(producer)).collect();
            let answering = async {
                for number in batch.clone() {
                    listener.sees(&format!("Question {number}: You have ")).await;
                }
                // An answer that comes sooner makes the question be asked again.
                tokio::time::sleep(Duration::from_millis(900)).await;
            };
            tokio::select! {
                () = answering => {}
                _ = asking.next() => panic!("nobody has answered yet"),
            }
            for number in batch {
                let start = Instant::now();
                listener.keyboard.write_all(format!("yes {number}\n").as_bytes()).unwrap();
                times.push(asking.next().await.unwrap().duration_since(start));
            }
        }
        times
    }

    /// Asks in a new session. Returns when the reply arrived.
    async fn ask(producer: &Producer) -> Instant {
        let session = producer.session("Watering the garden.").await.unwrap();
        let question = Confirmation::new("Water the roses.", "They are wet.").irreversible();
        let outcome = session.confirm(question).await.unwrap();
        let replied = Instant::now();
        assert_eq!(outcome.decision, Decision::Accept);
        session.complete("Done.").await.unwrap();
        replied
    }

    /// Measures from the start of the command to the announcement of an open question.
    async fn starts(producer: &Producer, address: &str) -> Vec<Duration> {
        let session = producer.session("Watering the garden.").await.unwrap();
        let asking = session.confirm(Confirmation::new("Water the roses.", "They are wet."));
        let starting = async {
            let mut times = Vec::new();
            for _ in 0..STARTS {
                let start = Instant::now();
                let mut listener = ListenProcess::start(address);
                listener.sees("Question 1: ").await;
                times.push(start.elapsed());
            }
            times
        };
        tokio::select! {
            times = starting => times,
            _ = asking => panic!("nobody answers"),
        }
    }

    fn report(what: &str, mut times: Vec<Duration>) {
        times.sort();
        let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
        println!("{what}: p50 {:.1?}, p99 {:.1?}, {} times", at(0.5), at(0.99), times.len());
    }
}
