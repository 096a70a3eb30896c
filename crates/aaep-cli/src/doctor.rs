//! `aaep doctor`: what works on this machine, and how to fix what does not.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use aaep_client::DEFAULT_PORT;
use aaep_server::{Config, Layer};
use aaep_voice::brlapi::BrailleConfig;
use aaep_voice::{Braille, Voice, VoiceConfig};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;

use crate::CommandStatus;
use crate::listen::profile;
use crate::local_agents::{find_agents, socket_directory};
use crate::output::print_line;
use crate::runtime::runtime;

/// How long a service may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Check what works here, and say how to fix the rest.
///
/// Checks your settings, speech, braille, the local socket, the default port and which agents run. Nothing is changed.
/// Exit code 0 if listening and serving work, 1 if not; speech, braille and running agents are optional.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep doctor
  aaep doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Configuration file of a server to check too (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// The result of one check.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    works: bool,
    /// Whether listening and serving work without it.
    optional: bool,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn works(name: &'static str, text: impl Into<String>) -> Check {
        Check { name, works: true, optional: false, text: text.into(), fix: None }
    }

    fn fails(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, works: false, optional: false, text: text.into(), fix: Some(fix.into()) }
    }

    fn optional(self) -> Check {
        Check { optional: true, ..self }
    }

    /// Returns the line for people.
    fn line(&self) -> String {
        let state = if self.works { "works" } else { "does not work" };
        let fix = self.fix.as_ref().map(|fix| format!(" To fix it: {fix}.")).unwrap_or_default();
        format!("{}: {state}. {}.{fix}", self.name, self.text)
    }
}

pub(crate) fn run(args: &DoctorArgs) -> io::Result<CommandStatus> {
    let checks = runtime()?.block_on(async {
        vec![
            check_profile(),
            check_settings(args.config.as_deref()),
            check_voice().await.optional(),
            check_braille().await.optional(),
            check_socket(socket_directory().as_deref()),
            check_port().await.optional(),
            check_agents().await.optional(),
        ]
    });
    let ok = checks.iter().all(|check| check.works || check.optional);
    if args.json {
        writeln!(io::stdout(), "{}", json!({"ok": ok, "checks": checks}))?;
    } else {
        for check in &checks {
            print_line(&check.line())?;
        }
    }
    Ok(if ok { CommandStatus::Yes } else { CommandStatus::No })
}

fn check_profile() -> Check {
    match profile(None) {
        Ok(_) => Check::works("Profile", "Your profile is valid, or there is none and the defaults apply"),
        Err(error) => Check::fails("Profile", error, "correct or remove the file"),
    }
}

/// Checks the settings of servers in the environment and in a file.
fn check_settings(file: Option<&Path>) -> Check {
    let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let file = file.map(Layer::from_file).transpose();
    let config = file.and_then(|file| Config::from_layers([file.unwrap_or_default(), Layer::from_env(variables)?]));
    match config {
        Ok(_) => Check::works("Settings", "The settings of servers are valid"),
        Err(error) => Check::fails("Settings", error.to_string(), "correct the setting, or remove it"),
    }
}

async fn check_voice() -> Check {
    let fix = "install the packages speech-dispatcher and espeak-ng, then try: spd-say hello";
    let config = VoiceConfig { component: "doctor".to_owned(), ..VoiceConfig::default() };
    match timeout(TIMEOUT, Voice::connect(config)).await {
        Ok(Ok(_)) => Check::works("Speech", "speech-dispatcher answers; use it with: aaep listen --speak"),
        Ok(Err(error)) => Check::fails("Speech", error.to_string(), fix),
        Err(_) => Check::fails("Speech", "speech-dispatcher does not answer", fix),
    }
}

async fn check_braille() -> Check {
    let fix = "start BRLTTY with your display and join the group brlapi, see: man brltty";
    let connecting = async {
        let mut display = Braille::connect(&BrailleConfig::default()).await?;
        display.driver().await
    };
    match timeout(TIMEOUT, connecting).await {
        Ok(Ok(driver)) if driver == "NoBraille" => Check::fails("Braille", "BRLTTY runs but has no display", fix),
        Ok(Ok(driver)) => Check::works(
            "Braille",
            format!("BRLTTY answers with the driver {driver}; use it with: aaep listen --braille"),
        ),
        Ok(Err(error)) => Check::fails("Braille", error.to_string(), fix),
        Err(_) => Check::fails("Braille", "BRLTTY does not answer", fix),
    }
}

/// Checks that the directory of sockets can be used, as a server would.
fn check_socket(directory: Option<&Path>) -> Check {
    if cfg!(windows) {
        return Check::works("Local socket", "Agents serve named pipes of this user");
    }
    let Some(directory) = directory else {
        return Check::fails(
            "Local socket",
            "there is no directory for it",
            "set XDG_RUNTIME_DIR to a directory of yours",
        );
    };
    let fix = format!(
        "run: chmod 700 {0}, or remove {0}, or set XDG_RUNTIME_DIR to a directory of yours",
        directory.display()
    );
    match usable(directory) {
        Ok(()) => Check::works("Local socket", format!("Sockets are in {}", directory.display())),
        Err(error) => Check::fails("Local socket", format!("{} {error}", directory.display()), fix),
    }
}

/// Returns why sockets cannot be in this directory. One that does not exist can be created if its parent is writable.
fn usable(directory: &Path) -> Result<(), String> {
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let metadata = std::fs::metadata(existing).map_err(|error| format!("cannot be used: {error}"))?;
    if !metadata.is_dir() {
        return Err("is not a directory".to_owned());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if existing == directory && metadata.permissions().mode() & 0o077 != 0 {
            return Err("is accessible to other users".to_owned());
        }
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(existing, access).map_err(|error| format!("cannot be written: {error}"))?;
    }
    Ok(())
}

async fn check_port() -> Check {
    match std::net::TcpListener::bind(("127.0.0.1", DEFAULT_PORT)) {
        Ok(_) => Check::works("Port", format!("Port {DEFAULT_PORT} is free")),
        Err(_) => {
            let text = format!("Port {DEFAULT_PORT} is in use");
            Check::fails(
                "Port",
                text,
                "end the program that uses it, or choose another with --listen; aaep run does by itself",
            )
        }
    }
}

async fn check_agents() -> Check {
    let found: Vec<String> = find_agents().await.iter().map(ToString::to_string).collect();
    if found.is_empty() {
        Check::works("Agents", "None of yours runs here; start one, such as: aaep demo")
    } else {
        Check::works("Agents", format!("Running: {}; listen to them with: aaep listen", found.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_state_and_remedy() {
        assert_eq!(Check::works("Port", "It is free").line(), "Port: works. It is free.");
        let check = Check::fails("Speech", "no voice", "install one").optional();
        assert_eq!(check.line(), "Speech: does not work. no voice. To fix it: install one.");
        assert!(check.optional);
    }

    #[cfg(unix)]
    #[test]
    fn directory_of_sockets_must_be_private() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        assert!(check_socket(Some(&place.path().join("aaep"))).works, "it can be created");
        let open = place.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let check = check_socket(Some(&open));
        assert!(!check.works && check.fix.unwrap().contains("chmod 700"), "{}", check.text);
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!check_socket(Some(&file)).works && !check_socket(None).works);
    }
}
