//! How long a user waits for the terminal: from Enter to the reply at the agent, and from the start of `aaep listen` to
//! its first announcement. Reported, not asserted. `cargo bench -p aaep-test --bench listen`.

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

    use aaep::{Confirmation, Producer};
    use aaep_server::{Config, Layer, Server};
    use aaep_test::aaep;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use tokio::sync::mpsc;

    /// Questions for each transport. Each takes the time that a question must have been known.
    const QUESTIONS: usize = 100;
    /// Starts of the command.
    const STARTS: usize = 20;

    /// A listener with a keyboard.
    struct Listener {
        child: Child,
        keyboard: File,
        lines: mpsc::UnboundedReceiver<String>,
    }

    impl Listener {
        fn start(address: &str) -> Listener {
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
            Listener { child, keyboard: File::from(keyboard), lines }
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

    impl Drop for Listener {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    pub(super) async fn measure() {
        // A directory that the server makes itself: it opens no socket where others can go.
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
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let session = server.producer().session("Watering the garden.").await.unwrap();
            let start = Instant::now();
            let mut listener = Listener::start(&http);
            listener.sees("Listening to").await;
            times.push(start.elapsed());
            drop(listener);
            session.complete("Done.").await.unwrap();
        }
        report("start of aaep listen to its first words from the agent", times);
        server.stop("The measurement is over.").await;
        let _ = std::fs::remove_file(place);
    }

    async fn answers(producer: &Producer, address: &str) -> Vec<Duration> {
        let mut listener = Listener::start(address);
        listener.sees("Listening to").await;
        let session = producer.session("Watering the garden.").await.unwrap();
        let mut times = Vec::new();
        for _ in 0..QUESTIONS {
            let question = Confirmation::new("Water the roses.", "They are wet.").irreversible();
            let asking = session.confirm(question);
            let answering = async {
                listener.sees("Answer yes or no.").await;
                // What is answered sooner is put again.
                tokio::time::sleep(Duration::from_millis(900)).await;
                let start = Instant::now();
                listener.keyboard.write_all(b"yes\n").unwrap();
                start
            };
            let (outcome, start) = tokio::join!(
                async {
                    let outcome = asking.await;
                    (outcome, Instant::now())
                },
                answering
            );
            assert!(outcome.0.unwrap().permit.is_some());
            times.push(outcome.1.duration_since(start));
        }
        session.complete("Done.").await.unwrap();
        times
    }

    fn report(what: &str, mut times: Vec<Duration>) {
        times.sort();
        let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
        println!("{what}: p50 {:.1?}, p99 {:.1?}, {} times", at(0.5), at(0.99), times.len());
    }
}
