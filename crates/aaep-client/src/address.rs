//! Addresses of producers.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;

/// The address of a producer: the transport and where it is reached.
///
/// ```
/// use aaep_client::Address;
/// assert!(matches!("https://agents.example/gardener".parse()?, Address::Http(_)));
/// assert_eq!("localhost:8377".parse::<Address>()?.to_string(), "http://localhost:8377");
/// assert!(matches!("unix:/run/user/1000/aaep/gardener.sock".parse()?, Address::Unix(_)));
/// assert!("ftp://agents.example".parse::<Address>().is_err());
/// # Ok::<(), aaep_client::ParseAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `http:` or `https:`: Server-Sent Events and POST.
    Http(HttpOrigin),
    /// `ws:` or `wss:`: WebSocket.
    WebSocket(HttpOrigin),
    /// `grpc:` or `grpcs:`: gRPC.
    Grpc(HttpOrigin),
    /// `unix:PATH`: a Unix socket.
    Unix(PathBuf),
    /// `pipe:NAME`: a named pipe of Windows, such as `\\.\pipe\aaep\gardener`. The name alone is an address, too.
    Pipe(PathBuf),
    /// `stdio:COMMAND`: the words of a command that is run, whose standard input and output carry the messages.
    Stdio(Vec<String>),
}

/// A host with its port, and a path on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOrigin {
    /// Whether connections to it are encrypted with TLS.
    pub tls: bool,
    /// The host; IPv6 addresses are in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, without a trailing slash.
    pub path: String,
}

impl HttpOrigin {
    /// Returns host and port as a URI has them: without the port if it is the default one.
    pub fn authority(&self) -> String {
        if self.port == default_port(self.tls) { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Returns the host without brackets.
    pub fn bare_host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// Returns whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.bare_host();
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns the URI of a path on the host. The path begins with a slash.
    #[cfg(feature = "_http")]
    pub(crate) fn uri(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.authority())
    }
}

/// Why a text is not the address of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAddressError(&'static str);

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ParseAddressError {}

const FORMS: &str = "an address is a host with a port, or begins with http:, https:, ws:, wss:, grpc:, grpcs:, unix:, pipe: \
    or stdio:, followed by where the agent is";

/// How the names of pipes begin.
const PIPES: &str = r"\\.\pipe\";

/// Completes a host with a port to a URI: `http` for this machine, `https` for any other. Returns `None` for other texts.
fn complete(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let schemes = ["http", "https", "ws", "wss", "grpc", "grpcs", "unix", "pipe"];
    if host.is_empty() || schemes.contains(&host) || host.contains(['/', '\\', '@', ' ']) {
        return None;
    }
    let origin = HttpOrigin { tls: false, host: host.to_owned(), port: 0, path: String::new() };
    Some(format!("{}://{text}", if origin.is_loopback() { "http" } else { "https" }))
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl std::str::FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Address, ParseAddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(ParseAddressError(FORMS)) } else { Ok(Address::Unix(path.into())) };
        }
        if let Some(name) = text.strip_prefix("pipe:").or(text.starts_with(PIPES).then_some(text)) {
            return if name.is_empty() { Err(ParseAddressError(FORMS)) } else { Ok(Address::Pipe(name.into())) };
        }
        if let Some(command) = text.strip_prefix("stdio:") {
            return Ok(Address::Stdio(command.split_whitespace().map(str::to_owned).collect()));
        }
        let completed = complete(text);
        let text = completed.as_deref().unwrap_or(text);
        let (scheme, rest) = text.split_once("://").ok_or(ParseAddressError(FORMS))?;
        let (tls, make): (bool, fn(HttpOrigin) -> Address) = match scheme {
            "http" => (false, Address::Http),
            "https" => (true, Address::Http),
            "ws" => (false, Address::WebSocket),
            "wss" => (true, Address::WebSocket),
            "grpc" => (false, Address::Grpc),
            "grpcs" => (true, Address::Grpc),
            _ => return Err(ParseAddressError(FORMS)),
        };
        // The parser of URIs knows these two schemes for certain.
        let uri: Uri = format!("{}://{rest}", if tls { "https" } else { "http" })
            .parse()
            .map_err(|_| ParseAddressError("the address is not a valid URI"))?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(ParseAddressError("the address has no host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(ParseAddressError("an address must not contain a password; give credentials separately"));
        }
        let port = uri.port_u16().unwrap_or(default_port(tls));
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(make(HttpOrigin { tls, host: host.to_owned(), port, path }))
    }
}

impl Address {
    /// Returns the host and path, or `None` for an address on this machine without a host.
    pub fn origin(&self) -> Option<&HttpOrigin> {
        match self {
            Address::Http(origin) | Address::WebSocket(origin) | Address::Grpc(origin) => Some(origin),
            Address::Unix(_) | Address::Pipe(_) | Address::Stdio(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, origin) = match self {
            Address::Http(origin) => (if origin.tls { "https" } else { "http" }, origin),
            Address::WebSocket(origin) => (if origin.tls { "wss" } else { "ws" }, origin),
            Address::Grpc(origin) => (if origin.tls { "grpcs" } else { "grpc" }, origin),
            Address::Unix(path) => return write!(f, "unix:{}", path.display()),
            Address::Pipe(name) => return write!(f, "pipe:{}", name.display()),
            Address::Stdio(words) => return write!(f, "stdio:{}", words.join(" ")),
        };
        write!(f, "{scheme}://{}{}", origin.authority(), origin.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_displayed() {
        for text in [
            "http://localhost:8080",
            "https://agents.example/gardener",
            "wss://[::1]:9/aaep/v1/ws",
            "grpc://127.0.0.1:50051",
            "unix:/run/a b.sock",
            r"pipe:\\.\pipe\aaep\gardener",
            "stdio:agent --fast",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let pipe = r"\\.\pipe\aaep\gardener";
        assert_eq!(pipe.parse::<Address>().unwrap(), Address::Pipe(pipe.into()));
        for (text, expected) in [
            ("http://a:80/", "http://a"),
            ("localhost:8377", "http://localhost:8377"),
            ("127.0.0.1:9", "http://127.0.0.1:9"),
            ("[::1]:9", "http://[::1]:9"),
            ("agents.example:8377", "https://agents.example:8377"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:x",
            ":80",
            "http:80",
            "u@a:80",
            "http://",
            "http://u:p@host",
            "unix:",
            "pipe:",
            "ftp://a",
            "http://a b",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is = |text: &str| text.parse::<Address>().unwrap().origin().unwrap().is_loopback();
        assert!(is("http://127.0.0.1") && is("ws://[::1]:4") && is("http://LOCALHOST"));
        assert!(!is("http://localhost.example") && !is("http://10.0.0.1") && !is("http://127.0.0.1.example"));
    }
}
