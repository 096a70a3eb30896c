//! Finds the address of BRLTTY, the key file and the path of the terminal.

use std::path::PathBuf;

use super::error::BrailleError;
use crate::endpoint::Endpoint;

/// The directory of BRLTTY's sockets.
const SOCKETS: &str = "/var/lib/BrlAPI";

/// The default key file.
const KEY: &str = "/etc/brlapi.key";

/// The TCP port of server number 0.
const PORT: u16 = 4101;

/// The deepest nesting of terminals.
const DEPTH: usize = 16;

/// The configuration of a connection to BRLTTY.
///
/// ```
/// use aaep_voice::brlapi::BrailleConfig;
/// let config = BrailleConfig::default();
/// assert!(config.address.is_none() && config.key_file.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrailleConfig {
    /// The address of the server. If `None`, it is read from `BRLAPI_HOST`; the default is `/var/lib/BrlAPI/0`.
    pub address: Option<Endpoint>,
    /// The file with the key, used if the server requires one. If `None`, it is read from `BRLAPI_AUTH`; the default is
    /// `/etc/brlapi.key`.
    pub key_file: Option<PathBuf>,
}

impl BrailleConfig {
    /// Returns the address. `variable` reads the environment.
    pub(super) fn endpoint(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, BrailleError> {
        if let Some(endpoint) = &self.address {
            return Ok(endpoint.clone());
        }
        let host = variable("BRLAPI_HOST").filter(|host| !host.is_empty()).unwrap_or_else(|| ":0".into());
        let bad = || BrailleError::BadAddress(host.chars().take(200).collect());
        let (name, number) = host.rsplit_once(':').unwrap_or((&host, "0"));
        if name.is_empty() {
            // The number becomes a file name, so it must not contain a path.
            let plain = !number.is_empty() && !number.starts_with('.') && !number.contains('/');
            return if plain { Ok(Endpoint::Unix(PathBuf::from(SOCKETS).join(number))) } else { Err(bad()) };
        }
        let port = number.parse::<u16>().ok().and_then(|number| PORT.checked_add(number)).ok_or_else(bad)?;
        Ok(Endpoint::Tcp(name.trim_start_matches('[').trim_end_matches(']').into(), port))
    }

    /// Returns the key file. Other methods of authentication in `BRLAPI_AUTH` are ignored.
    pub(super) fn key_file(&self, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
        let named = |auth: String| {
            let mut ways = auth.split('+');
            ways.find_map(|way| way.strip_prefix("keyfile:").or(way.starts_with('/').then_some(way)).map(PathBuf::from))
        };
        let file = self.key_file.clone().or_else(|| variable("BRLAPI_AUTH").and_then(named));
        file.unwrap_or_else(|| KEY.into())
    }
}

/// Returns the path of the terminal that this program runs in, from the environment: console, screen, window. With an
/// empty path the display is used whatever terminal has the focus.
///
/// ```
/// use aaep_voice::brlapi::tty_path;
/// let variable = |name: &str| match name {
///     "WINDOWPATH" => Some("7".to_owned()),
///     "WINDOWID" => Some("4194307".to_owned()),
///     _ => None,
/// };
/// assert_eq!(tty_path(variable), [7, 4194307]);
/// ```
pub fn tty_path(variable: impl Fn(&str) -> Option<String>) -> Vec<u32> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let mut path: Vec<u32> = match variable("WINDOWPATH") {
        Some(windows) => windows.split(':').map_while(|part| part.parse().ok()).take(DEPTH).collect(),
        None if variable("DISPLAY").is_some() => number("XDG_VTNR").into_iter().collect(),
        None => Vec::new(),
    };
    path.extend(number("WINDOWID").or_else(|| number("CONTROLVT")));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(value: &str) -> Result<Endpoint, BrailleError> {
        BrailleConfig::default().endpoint(|name| (name == "BRLAPI_HOST").then(|| value.to_owned()))
    }

    #[test]
    fn hosts_are_parsed() {
        assert_eq!(host(""), Ok(Endpoint::Unix("/var/lib/BrlAPI/0".into())));
        assert_eq!(host(":3"), Ok(Endpoint::Unix("/var/lib/BrlAPI/3".into())));
        assert_eq!(host("far:1"), Ok(Endpoint::Tcp("far".into(), 4102)));
        assert_eq!(host("far"), Ok(Endpoint::Tcp("far".into(), 4101)));
        assert_eq!(host("[::1]:0"), Ok(Endpoint::Tcp("::1".into(), 4101)));
        for bad in ["far:x", "far:65000", ":../x", ":a/b", ":"] {
            assert_eq!(host(bad), Err(BrailleError::BadAddress(bad.into())));
        }
    }

    #[test]
    fn key_file_is_found() {
        let file = |auth: &str| BrailleConfig::default().key_file(|_| Some(auth.to_owned()));
        assert_eq!(file("keyfile:/k+polkit"), PathBuf::from("/k"));
        assert_eq!(file("polkit+keyfile:/k"), PathBuf::from("/k"));
        assert_eq!(file("/k"), PathBuf::from("/k"));
        assert_eq!(file("none"), PathBuf::from("/etc/brlapi.key"));
    }

    #[test]
    fn path_of_the_terminal_is_found() {
        let path = |pairs: &[(&str, &str)]| {
            tty_path(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
        };
        assert!(path(&[]).is_empty());
        assert_eq!(path(&[("CONTROLVT", "2")]), [2]);
        assert_eq!(path(&[("DISPLAY", ":0"), ("XDG_VTNR", "7"), ("WINDOWID", "9")]), [7, 9]);
        assert_eq!(path(&[("WINDOWPATH", "1:2"), ("WINDOWID", "x")]), [1, 2]);
        assert_eq!(path(&[("WINDOWPATH", &"1:".repeat(5000))]).len(), DEPTH);
    }
}
