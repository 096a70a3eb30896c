//! The headers by which a proxy names the client of a request: `Forwarded` (RFC 7239) and `X-Forwarded-For`, `-Proto` and
//! `-Host`. This file uses the standard library only, because the fuzz target compiles it by itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The headers of one request, each with its values in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForwardingHeaders<'a> {
    /// `Forwarded`
    pub(crate) forwarded: Vec<&'a [u8]>,
    /// `X-Forwarded-For`
    pub(crate) x_for: Vec<&'a [u8]>,
    /// `X-Forwarded-Proto`
    pub(crate) x_proto: Vec<&'a [u8]>,
    /// `X-Forwarded-Host`
    pub(crate) x_host: Vec<&'a [u8]>,
}

/// The client of a request, as its proxies name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedClient {
    /// The address of the client.
    pub(crate) address: IpAddr,
    /// Whether the client's own connection is encrypted.
    pub(crate) encrypted: bool,
    /// The host that the client sent its request to, if the proxy names it.
    pub(crate) host: Option<String>,
}

/// A header that names the client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardingHeader {
    /// `Forwarded`
    Forwarded,
    /// `X-Forwarded-For`
    XFor,
    /// `X-Forwarded-Proto`
    XProto,
    /// `X-Forwarded-Host`
    XHost,
}

/// Why the client of a request is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedError {
    /// A header does not follow its grammar where it matters.
    Malformed(ForwardingHeader),
    /// No header has the address of the client.
    NoAddress,
    /// No header says whether the client's connection is encrypted.
    NoProto,
    /// `Forwarded` and `X-Forwarded-*` contradict each other: the proxy has passed on headers of the client.
    Contradiction,
}

impl ForwardedError {
    /// Says what is wrong and what to do.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            ForwardedError::Malformed(ForwardingHeader::Forwarded) => "The header Forwarded is malformed.",
            ForwardedError::Malformed(ForwardingHeader::XFor) => "The header X-Forwarded-For is malformed.",
            ForwardedError::Malformed(ForwardingHeader::XProto) => "The header X-Forwarded-Proto is malformed.",
            ForwardedError::Malformed(ForwardingHeader::XHost) => "The header X-Forwarded-Host is malformed.",
            ForwardedError::NoAddress => "The proxy must send X-Forwarded-For, or Forwarded with for=.",
            ForwardedError::NoProto => "The proxy must send X-Forwarded-Proto, or Forwarded with proto=.",
            ForwardedError::Contradiction => {
                "Forwarded and X-Forwarded-* contradict each other. The proxy must remove those that it does not set."
            }
        }
    }
}

impl fmt::Display for ForwardedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for ForwardedError {}

/// Returns the client of a request that a trusted proxy sent. Each proxy appends the address of its own peer, so the client
/// is the rightmost address that is not a trusted proxy; everything to the left of it is the client's own claim. If all
/// addresses are proxies, the request comes from the leftmost one.
pub(crate) fn client_of(
    headers: &ForwardingHeaders<'_>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Result<ForwardedClient, ForwardedError> {
    let standard = standard_client(&headers.forwarded, &is_trusted)?;
    let (x_for, x_proto) = (last_untrusted(&headers.x_for, &is_trusted)?, last_proto(&headers.x_proto)?);
    let x_host = last_host(&headers.x_host)?;
    let address = same(standard.address, x_for)?.ok_or(ForwardedError::NoAddress)?;
    let encrypted = same(standard.encrypted, x_proto)?.ok_or(ForwardedError::NoProto)?;
    Ok(ForwardedClient { address, encrypted, host: same(standard.host, x_host)? })
}

/// Returns the value that both kinds of headers agree on, or that of the kind that is there.
fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> Result<Option<T>, ForwardedError> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(ForwardedError::Contradiction),
        (a, b) => Ok(a.or(b)),
    }
}

/// What `Forwarded` says about the client.
#[derive(Default)]
struct StandardClient {
    address: Option<IpAddr>,
    encrypted: Option<bool>,
    host: Option<String>,
}

fn standard_client(values: &[&[u8]], is_trusted: &impl Fn(IpAddr) -> bool) -> Result<StandardClient, ForwardedError> {
    let malformed = ForwardedError::Malformed(ForwardingHeader::Forwarded);
    let mut elements = Vec::new();
    for value in values {
        let text = std::str::from_utf8(value).map_err(|_| malformed)?;
        elements.extend(parse_elements(text).ok_or(malformed)?);
    }
    let mut client = StandardClient::default();
    for element in elements.into_iter().rev() {
        let address = element.node.as_deref().and_then(parse_node).ok_or(malformed)?;
        let encrypted = element.proto.as_deref().map(|proto| is_encrypted(proto).ok_or(malformed)).transpose()?;
        let host = element.host.map(|host| checked_host(&host).ok_or(malformed)).transpose()?;
        client = StandardClient { address: Some(address), encrypted, host };
        if !is_trusted(address) {
            break;
        }
    }
    Ok(client)
}

/// One element of `Forwarded`: what one proxy has added.
#[derive(Debug, Default)]
struct ForwardedElement {
    node: Option<String>,
    proto: Option<String>,
    host: Option<String>,
}

/// Parses a value of `Forwarded`: elements with commas between them, of pairs with semicolons between them.
fn parse_elements(text: &str) -> Option<Vec<ForwardedElement>> {
    let mut elements = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut element = ForwardedElement::default();
    let mut rest = skip_spaces(text);
    loop {
        if !rest.is_empty() && !rest.starts_with([',', ';']) {
            let (name, value, after) = parse_pair(rest)?;
            let name = name.to_ascii_lowercase();
            // A parameter occurs at most once in an element (RFC 7239, 4).
            if names.contains(&name) {
                return None;
            }
            match name.as_str() {
                "for" => element.node = Some(value),
                "proto" => element.proto = Some(value),
                "host" => element.host = Some(value),
                _ => {}
            }
            names.push(name);
            rest = skip_spaces(after);
        }
        let ends = rest.is_empty() || rest.starts_with(',');
        // Empty elements of a list are ignored (RFC 9110, 5.6.1.2).
        if ends && !names.is_empty() {
            elements.push(std::mem::take(&mut element));
            names.clear();
        }
        rest = match rest.strip_prefix([',', ';']) {
            Some(after) => skip_spaces(after),
            None if rest.is_empty() => return Some(elements),
            None => return None,
        };
    }
}

fn skip_spaces(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// Parses `name=value` and returns the rest.
fn parse_pair(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = split_token(text, "")?;
    let rest = rest.strip_prefix('=')?;
    match rest.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted).map(|(value, rest)| (name, value, rest)),
        // Many proxies send addresses with ports and IPv6 addresses without the quotes that the grammar demands.
        None => split_token(rest, ":[]").map(|(value, rest)| (name, value.to_owned(), rest)),
    }
}

/// Splits after the characters of a token (RFC 9110, 5.6.2) and these others.
fn split_token<'a>(text: &'a str, others: &str) -> Option<(&'a str, &'a str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c) || others.contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses the rest of a quoted string after its first quote.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// Parses an address with an optional port. An IPv6 address may have no brackets if it has no port.
fn parse_node(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let address = match (bracketed, text.split_once(':')) {
        (Some((address, port)), _) => {
            let address = address.parse::<Ipv6Addr>().ok()?;
            (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(IpAddr::V6(address))?
        }
        (None, Some((address, port))) if is_port(port) => address.parse::<Ipv4Addr>().ok()?.into(),
        _ => text.parse().ok()?,
    };
    Some(address.to_canonical())
}

/// Returns whether this is a port, or a name that hides one (RFC 7239, 6.3).
fn is_port(text: &str) -> bool {
    let hidden = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits || text.strip_prefix('_').is_some_and(|name| !name.is_empty() && hidden(name))
}

fn is_encrypted(proto: &str) -> Option<bool> {
    let is = |name: &str| proto.eq_ignore_ascii_case(name);
    if is("https") || is("wss") {
        Some(true)
    } else if is("http") || is("ws") {
        Some(false)
    } else {
        None
    }
}

/// Returns a host that has no character which a `Host` header cannot have.
fn checked_host(text: &str) -> Option<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+=:[]".contains(&b);
    (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
}

/// Returns the items of the values of a list header, the last one first. Empty items are left out.
fn items_from_the_right<'a>(values: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    let items = values.iter().rev().flat_map(|value| value.rsplit(|b| *b == b','));
    items.map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

fn last_untrusted(values: &[&[u8]], is_trusted: &impl Fn(IpAddr) -> bool) -> Result<Option<IpAddr>, ForwardedError> {
    let mut client = None;
    for item in items_from_the_right(values) {
        let address = std::str::from_utf8(item).ok().and_then(parse_node);
        let address = address.ok_or(ForwardedError::Malformed(ForwardingHeader::XFor))?;
        client = Some(address);
        if !is_trusted(address) {
            break;
        }
    }
    Ok(client)
}

/// Returns what the nearest proxy says.
fn last_proto(values: &[&[u8]]) -> Result<Option<bool>, ForwardedError> {
    let Some(item) = items_from_the_right(values).next() else { return Ok(None) };
    let encrypted = std::str::from_utf8(item).ok().and_then(is_encrypted);
    encrypted.map(Some).ok_or(ForwardedError::Malformed(ForwardingHeader::XProto))
}

/// Returns what the nearest proxy says.
fn last_host(values: &[&[u8]]) -> Result<Option<String>, ForwardedError> {
    let Some(item) = items_from_the_right(values).next() else { return Ok(None) };
    let host = std::str::from_utf8(item).ok().and_then(checked_host);
    host.map(Some).ok_or(ForwardedError::Malformed(ForwardingHeader::XHost))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything in 10.0.0.0/8 is a proxy.
    fn is_proxy(address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(ip) if ip.octets()[0] == 10)
    }

    fn standard(value: &str) -> Result<ForwardedClient, ForwardedError> {
        client_of(&ForwardingHeaders { forwarded: vec![value.as_bytes()], ..ForwardingHeaders::default() }, is_proxy)
    }

    fn x(x_for: &str, x_proto: &str) -> Result<ForwardedClient, ForwardedError> {
        let (x_for, x_proto) = (vec![x_for.as_bytes()], vec![x_proto.as_bytes()]);
        client_of(&ForwardingHeaders { x_for, x_proto, ..ForwardingHeaders::default() }, is_proxy)
    }

    fn client(address: &str, host: Option<&str>) -> Result<ForwardedClient, ForwardedError> {
        Ok(ForwardedClient { address: address.parse().unwrap(), encrypted: true, host: host.map(str::to_owned) })
    }

    #[test]
    fn rightmost_untrusted_address_is_the_client() {
        for x_for in
            ["192.0.2.7", "198.51.100.1, 192.0.2.7", "nonsense, 192.0.2.7, 10.0.0.1", "10.9.9.9,192.0.2.7 ,10.1.1.1"]
        {
            assert_eq!(x(x_for, "https"), client("192.0.2.7", None), "{x_for}");
        }
        for value in [
            "for=192.0.2.7;proto=https",
            "for=127.0.0.1;proto=http;host=localhost, for=192.0.2.7;proto=https",
            "for=192.0.2.7;proto=https, for=10.0.0.1;proto=http",
        ] {
            assert_eq!(standard(value), client("192.0.2.7", None), "{value}");
        }
        assert_eq!(x("10.0.0.2, 10.0.0.1", "https"), client("10.0.0.2", None), "a proxy's own request");
    }

    #[test]
    fn grammar_of_rfc_7239_is_accepted() {
        for (value, address, host) in [
            ("For=\"[2001:db8:cafe::17]:4711\";Proto=HTTPS", "2001:db8:cafe::17", None),
            ("for=192.0.2.60;proto=https;by=203.0.113.43;host=a.example", "192.0.2.60", Some("a.example")),
            ("for=\"192.0.2.43:47011\" ; proto=https;host=\"a.example:8443\"", "192.0.2.43", Some("a.example:8443")),
            (",, for=192.0.2.1;;proto=\"ht\\tps\" ,", "192.0.2.1", None),
            ("for=\"[::ffff:192.0.2.1]:_hidden\";proto=wss;secret=\"a, for=1.1.1.1; \\\" b\"", "192.0.2.1", None),
        ] {
            assert_eq!(standard(value), client(address, host), "{value}");
        }
    }

    #[test]
    fn malformed_headers_are_errors() {
        for value in [
            "for=192.0.2.1;proto=https, for=\"10.0.0.1",
            "for",
            "for=",
            "=x",
            "for=192.0.2.1 proto=https",
            "for=192.0.2.1;for=192.0.2.2;proto=https",
            "for=unknown;proto=https",
            "for=_hidden;proto=https",
            "proto=https",
            "for=192.0.2.1;proto=gopher",
            "for=192.0.2.1;proto=https;host=\"a b\"",
            "for=192.0.2.1:port;proto=https",
            "for=\"[192.0.2.1]\";proto=https",
            "for=\"[::1]x\";proto=https",
        ] {
            assert_eq!(standard(value), Err(ForwardedError::Malformed(ForwardingHeader::Forwarded)), "{value}");
        }
        for x_for in ["unknown", "192.0.2.1, unknown", "192.0.2.256", "localhost", "192.0.2.1 192.0.2.2"] {
            assert_eq!(x(x_for, "https"), Err(ForwardedError::Malformed(ForwardingHeader::XFor)), "{x_for}");
        }
        assert_eq!(x("192.0.2.1", "gopher"), Err(ForwardedError::Malformed(ForwardingHeader::XProto)));
    }

    #[test]
    fn missing_headers_are_errors() {
        assert_eq!(client_of(&ForwardingHeaders::default(), is_proxy), Err(ForwardedError::NoAddress));
        assert_eq!(x(" , ", "https"), Err(ForwardedError::NoAddress));
        assert_eq!(x("192.0.2.1", ""), Err(ForwardedError::NoProto));
        assert_eq!(standard("for=192.0.2.1"), Err(ForwardedError::NoProto));
    }

    #[test]
    fn headers_of_the_client_that_the_proxy_passed_on_are_a_contradiction() {
        let headers = |forwarded: &'static str| ForwardingHeaders {
            forwarded: vec![forwarded.as_bytes()],
            x_for: vec![b"192.0.2.7"],
            x_proto: vec![b"https"],
            x_host: vec![b"a.example"],
        };
        assert_eq!(client_of(&headers("for=192.0.2.7"), is_proxy), client("192.0.2.7", Some("a.example")));
        for forged in ["for=127.0.0.1", "for=192.0.2.7;proto=http", "for=192.0.2.7;host=localhost"] {
            assert_eq!(client_of(&headers(forged), is_proxy), Err(ForwardedError::Contradiction), "{forged}");
        }
    }

    #[test]
    fn several_lines_of_a_header_are_one_list() {
        let x_for = vec![&b"127.0.0.1"[..], b"192.0.2.7, 10.0.0.1"];
        let (x_proto, x_host) = (vec![&b"http"[..], b"https"], vec![&b"localhost"[..], b"a.example"]);
        let headers = ForwardingHeaders { x_for, x_proto, x_host, ..ForwardingHeaders::default() };
        assert_eq!(client_of(&headers, is_proxy), client("192.0.2.7", Some("a.example")));
    }

    proptest! {
        /// Whatever a client sends, the element that the proxy appends decides, or the request is refused.
        #[test]
        fn client_cannot_choose_its_address(claim in "[ -~\t]{0,60}") {
            let appended = format!("{claim}, for=192.0.2.7;proto=https;host=a.example");
            let result = standard(&appended);
            prop_assert!(result == client("192.0.2.7", Some("a.example")) || result.is_err(), "{:?}", result);
            prop_assert_eq!(x(&format!("{claim}, 192.0.2.7"), &format!("{claim}, https")), client("192.0.2.7", None));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 4)
        ) {
            let [forwarded, x_for, x_proto, x_host] = [0, 1, 2, 3].map(|i| vec![values[i].as_slice()]);
            let _ = client_of(&ForwardingHeaders { forwarded, x_for, x_proto, x_host }, is_proxy);
        }
    }
}
