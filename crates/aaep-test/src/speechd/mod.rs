//! A real speech-dispatcher of the test's own, without sound, and a tap that notes what a client tells it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aaep_voice::ssip::Events;
use aaep_voice::{Endpoint, SpeechId, VoiceConfig, VoiceEvent};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};

use crate::{PATIENCE, soon};

/// Looks again and again until there is something to see.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The directories of a private server.
pub struct TestSpeechd {
    directory: TempDir,
    server: Option<Child>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TestSpeechd {
    /// A speechd whose only voice is `sd_hold`: each text lasts until it is stopped or may go.
    pub fn held() -> TestSpeechd {
        let speechd = TestSpeechd::new("AddModule \"hold\" \"sd_hold\" \"\"\nDefaultModule hold\n");
        let module = speechd.path("modules/sd_hold");
        std::fs::write(&module, include_str!("sd_hold")).unwrap();
        std::fs::set_permissions(&module, std::fs::Permissions::from_mode(0o755)).unwrap();
        speechd
    }

    /// A speechd with the voice of espeak-ng, whose sound goes nowhere.
    pub fn espeak() -> TestSpeechd {
        let module = "AddModule \"espeak-ng\" \"sd_espeak-ng\" \"espeak-ng.conf\"\nDefaultModule espeak-ng\n";
        let speechd = TestSpeechd::new(module);
        std::fs::write(speechd.path("conf/modules/espeak-ng.conf"), "Debug 0\n").unwrap();
        speechd
    }

    fn new(modules: &str) -> TestSpeechd {
        let found = Command::new("speech-dispatcher").arg("--version").stdout(Stdio::null()).status();
        found.expect("speech-dispatcher cannot be run: install the Debian package speech-dispatcher");
        let speechd = TestSpeechd { directory: tempfile::tempdir().unwrap(), server: None, lines: Arc::default() };
        for name in ["conf/modules", "modules", "log", "home"] {
            std::fs::create_dir_all(speechd.path(name)).unwrap();
        }
        // A server that a client starts listens where its configuration says, and nowhere else.
        let socket = speechd.path("own.sock");
        let conf = format!(
            "SocketPath {socket:?}\nLogLevel 3\nSymbolsPreproc \"none\"\nAudioOutputMethod \"libao\"\n{modules}"
        );
        std::fs::write(speechd.path("conf/speechd.conf"), conf).unwrap();
        std::fs::write(speechd.path("home/.libao"), "default_driver=null\n").unwrap();
        speechd
    }

    /// Returns the path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The arguments that keep a server within this speechd.
    pub fn arguments(&self) -> Vec<String> {
        let path = |name| self.path(name).display().to_string();
        let mut arguments = vec!["-C".into(), path("conf"), "-P".into(), path("pid"), "-L".into(), path("log")];
        arguments.extend(["-t".into(), "0".into()]);
        if self.path("modules/sd_hold").exists() {
            arguments.extend(["-m".into(), path("modules")]);
        }
        arguments
    }

    /// Starts the server, and the tap before it. Returns how a voice finds the tap.
    pub async fn serve(&mut self) -> VoiceConfig {
        let log = std::fs::File::create(self.path("log/output")).unwrap();
        let mut command = Command::new("speech-dispatcher");
        command.args(["-s", "-c", "unix_socket", "-S"]).arg(self.path("real.sock")).args(self.arguments());
        command.env("HOME", self.path("home")).env("XDG_RUNTIME_DIR", self.path("home"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.server = Some(command.spawn().unwrap());
        let real = self.path("real.sock");
        let end = Instant::now() + PATIENCE;
        while UnixStream::connect(&real).await.is_err() {
            assert!(Instant::now() < end, "speech-dispatcher does not start: {}", self.text("log/output"));
            sleep(Duration::from_millis(20)).await;
        }
        let tap = self.path("tap.sock");
        tokio::spawn(listen(UnixListener::bind(&tap).unwrap(), real, Arc::clone(&self.lines)));
        VoiceConfig { address: Some(Endpoint::Unix(tap)), start: None, ..VoiceConfig::default() }
    }

    /// What clients sent so far, line by line.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// What reached the synthesizer, and how it ended.
    pub fn spoken(&self) -> Vec<String> {
        self.text("modules/heard").lines().map(plain).collect()
    }

    /// The settings that reached the synthesizer.
    pub fn settings(&self) -> String {
        self.text("modules/settings")
    }

    /// Returns the same with the time of each note, in seconds.
    pub fn spoken_at(&self) -> Vec<(f64, String)> {
        let times = self.text("modules/times");
        let times = times.lines().map(|time| time.replace(',', ".").parse().unwrap());
        times.zip(self.spoken()).collect()
    }

    /// Makes each text last again until it is stopped or may go.
    pub fn hold(&self) {
        std::fs::remove_file(self.path("modules/go")).unwrap();
    }

    /// Lets texts end from now on.
    pub fn go(&self) {
        std::fs::write(self.path("modules/go"), "").unwrap();
    }

    /// Kills the server in the pid file.
    pub fn kill_spawned(&self) {
        self.signal_spawned("-KILL");
    }

    fn signal_spawned(&self, signal: &str) {
        if let Ok(pid) = self.text("pid").trim().parse::<u32>() {
            send(signal, pid);
        }
    }

    /// The answer to one request of a client that is not ours.
    pub async fn ask(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.path("real.sock")).await.unwrap();
        stream.write_all(format!("{request}\r\nQUIT\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon("the answer", stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }
}

impl Drop for TestSpeechd {
    fn drop(&mut self) {
        match &mut self.server {
            Some(server) => {
                // It ends its modules itself if it is asked to end.
                if matches!(server.try_wait(), Ok(None)) {
                    send("-TERM", server.id());
                }
                let end = std::time::Instant::now() + Duration::from_secs(10);
                while matches!(server.try_wait(), Ok(None)) && std::time::Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let _ = server.kill();
                let _ = server.wait();
            }
            None => self.signal_spawned("-TERM"),
        }
    }
}

fn send(signal: &str, pid: u32) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// The words of a note, without the marks that speech-dispatcher puts between them.
fn plain(note: &str) -> String {
    let mut out = String::new();
    let mut in_mark = false;
    for c in note.chars() {
        match c {
            '<' => in_mark = true,
            '>' => in_mark = false,
            c if !in_mark => out.push(c),
            _ => {}
        }
    }
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}

async fn listen(listener: UnixListener, real: PathBuf, lines: Arc<Mutex<Vec<String>>>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(tap(client, real.clone(), Arc::clone(&lines)));
    }
}

/// Passes everything on in both directions, and notes what the client says.
async fn tap(client: UnixStream, real: impl AsRef<Path>, lines: Arc<Mutex<Vec<String>>>) {
    let server = UnixStream::connect(real).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let (mut buffer, mut pending) = ([0; 4096], Vec::new());
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            pending.extend_from_slice(&buffer[..count]);
            while let Some(end) = pending.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = pending.drain(..end + 2).take(end).collect();
                lines.lock().unwrap().push(String::from_utf8(line).unwrap());
            }
            if to_server.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        let _ = to_server.shutdown().await;
    };
    let down = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::join!(up, down);
}

/// The next event.
pub async fn event(events: &mut Events) -> VoiceEvent {
    soon("an event", events.next()).await.expect("the voice has ended")
}

/// Goes through events until this one has begun.
pub async fn begun(events: &mut Events, wanted: SpeechId) {
    while !matches!(event(events).await, VoiceEvent::Begun { id, .. } if id == wanted) {}
}

/// Goes through events until this one was heard to its end; panics if it was taken back.
pub async fn ended(events: &mut Events, wanted: SpeechId) {
    loop {
        match event(events).await {
            VoiceEvent::Ended { id, .. } if id == wanted => return,
            VoiceEvent::Canceled { id, .. } if id == wanted => panic!("{id:?} was taken back"),
            _ => {}
        }
    }
}
