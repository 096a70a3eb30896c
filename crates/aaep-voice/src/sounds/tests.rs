use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::*;

struct Terminal(Sender<Vec<u8>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn bell_rings_for_prompts_failures_and_warnings() {
    let (sender, rung) = channel();
    let mut sounds = Sounds::bell(Terminal(sender));
    for earcon in [Earcon::Started, Earcon::Prompt, Earcon::Completed, Earcon::Failed, Earcon::Warning] {
        assert_eq!(sounds.play(earcon), Ok(()));
    }
    assert_eq!(rung.try_iter().collect::<Vec<_>>(), [b"\x07"; 3]);
}

#[test]
fn failure_of_the_bell_is_returned_once() {
    let (sender, rung) = channel();
    drop(rung);
    let mut sounds = Sounds::bell(Terminal(sender));
    assert!(matches!(sounds.play(Earcon::Prompt), Err(SoundError::Bell(_))));
    assert_eq!(sounds.play(Earcon::Prompt), Ok(()));
}

#[tokio::test]
async fn player_is_started_with_the_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("prompt.oga"), "a sound").unwrap();
    let out = directory.path().join("played");
    let script = format!("cat \"$1\" >> '{}'", out.display());
    let player = ["sh", "-c", &script, "player"].map(str::to_owned);
    let mut sounds = Sounds::files(directory.path(), Some(player.into()));
    assert_eq!(sounds.play(Earcon::Prompt), Ok(()));
    let end = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&out).unwrap_or_default() != "a sound" {
        assert!(Instant::now() < end, "the player was not started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let missing = SoundError::NoFile(directory.path().join("failed.wav"));
    assert_eq!(sounds.play(Earcon::Failed), Err(missing));
    assert_eq!(sounds.play(Earcon::Failed), Ok(()), "reported once");
}

#[tokio::test]
async fn failure_of_the_player_is_returned_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("prompt.wav"), "").unwrap();
    let mut sounds = Sounds::files(directory.path(), Some(vec!["false".into()]));
    let mut errors = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    while errors.is_empty() {
        assert!(Instant::now() < end, "nothing reported");
        errors.extend(sounds.play(Earcon::Prompt).err());
        if let Some(child) = &mut sounds.playing {
            child.wait().await.unwrap();
        }
    }
    assert!(matches!(&errors[..], [SoundError::Player(why)] if why.contains("ended with")), "{errors:?}");
    assert_eq!(sounds.play(Earcon::Prompt), Ok(()));

    let absent = directory.path().join("absent").display().to_string();
    let mut sounds = Sounds::files(directory.path(), Some(vec![absent]));
    assert!(matches!(sounds.play(Earcon::Prompt), Err(SoundError::Player(why)) if why.contains("not installed")));
}

#[test]
fn players_are_found_in_order_of_preference() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().as_os_str();
    assert_eq!(find_player(path), None);
    std::fs::write(directory.path().join("aplay"), "").unwrap();
    assert_eq!(find_player(path), Some(vec!["aplay".into()]));
    std::fs::write(directory.path().join("paplay"), "").unwrap();
    assert_eq!(find_player(path), Some(vec!["paplay".into()]));
}
