//! Finds the address of speech-dispatcher.

use std::path::PathBuf;

use super::error::VoiceError;
use crate::endpoint::Endpoint;

/// The default port of speech-dispatcher.
const PORT: u16 = 6560;

/// Returns the address in `SPEECHD_ADDRESS`, or else the socket of the user's own server. `variable` reads the environment.
pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, VoiceError> {
    match variable("SPEECHD_ADDRESS").filter(|address| !address.is_empty()) {
        Some(address) => parse(&address, variable),
        None => own_socket(variable).ok_or_else(no_home),
    }
}

fn parse(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, VoiceError> {
    let bad = || VoiceError::BadAddress(address.chars().take(200).collect());
    match address.split_once(':').unwrap_or((address, "")) {
        ("unix_socket", "") => own_socket(variable).ok_or_else(no_home),
        ("unix_socket", path) => Ok(Endpoint::Unix(path.into())),
        ("inet_socket", "") => Ok(Endpoint::Tcp("127.0.0.1".into(), PORT)),
        ("inet_socket", rest) => {
            // An IPv6 address contains colons; the port follows the last one.
            let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
            let port = if port.is_empty() { PORT } else { port.parse().map_err(|_| bad())? };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            if host.is_empty() { Err(bad()) } else { Ok(Endpoint::Tcp(host.into(), port)) }
        }
        _ => Err(bad()),
    }
}

fn no_home() -> VoiceError {
    VoiceError::NotRunning("its usual place: neither XDG_RUNTIME_DIR nor HOME is set".into())
}

/// Returns the socket of the user's own server: in the runtime directory, or else in the cache directory.
fn own_socket(variable: impl Fn(&str) -> Option<String>) -> Option<Endpoint> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory =
        set("XDG_RUNTIME_DIR").or_else(|| set("XDG_CACHE_HOME")).or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(Endpoint::Unix(directory.join("speech-dispatcher").join("speechd.sock")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Endpoint, VoiceError> {
        find(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    fn unix(path: &str) -> Result<Endpoint, VoiceError> {
        Ok(Endpoint::Unix(path.into()))
    }

    #[test]
    fn address_is_read_from_the_environment() {
        assert_eq!(with(&[("SPEECHD_ADDRESS", "unix_socket:/a b:c")]), unix("/a b:c"));
        assert_eq!(with(&[("SPEECHD_ADDRESS", "inet_socket:far:7")]), Ok(Endpoint::Tcp("far".into(), 7)));
        assert_eq!(with(&[("SPEECHD_ADDRESS", "inet_socket:far")]), Ok(Endpoint::Tcp("far".into(), 6560)));
        assert_eq!(with(&[("SPEECHD_ADDRESS", "inet_socket")]), Ok(Endpoint::Tcp("127.0.0.1".into(), 6560)));
        assert_eq!(with(&[("SPEECHD_ADDRESS", "inet_socket:[::1]:7")]), Ok(Endpoint::Tcp("::1".into(), 7)));
    }

    #[test]
    fn default_is_the_socket_of_the_user() {
        let own = unix("/run/1/speech-dispatcher/speechd.sock");
        assert_eq!(with(&[("XDG_RUNTIME_DIR", "/run/1")]), own);
        assert_eq!(with(&[("XDG_RUNTIME_DIR", "/run/1"), ("SPEECHD_ADDRESS", "")]), own);
        assert_eq!(with(&[("XDG_RUNTIME_DIR", "/run/1"), ("SPEECHD_ADDRESS", "unix_socket")]), own);
        assert_eq!(with(&[("HOME", "/h")]), unix("/h/.cache/speech-dispatcher/speechd.sock"));
        assert!(matches!(with(&[]), Err(VoiceError::NotRunning(_))));
    }

    #[test]
    fn unknown_form_of_address_is_an_error() {
        for bad in ["/run/speechd.sock", "inet_socket:a:b", "inet_socket::7", "inet_socket:a:70000", "tcp:a:1"] {
            assert_eq!(with(&[("SPEECHD_ADDRESS", bad)]), Err(VoiceError::BadAddress(bad.into())));
        }
    }
}
