//! The headers of proxies: whatever a client sends before what the proxy appends, the proxy decides.

#![no_main]

// The file by itself: the rest of its crate would take minutes to compile.
#[allow(dead_code, reason = "the fuzz target calls the parser only")]
#[path = "../../crates/aaep-server/src/forwarded.rs"]
mod forwarded;

use std::net::{IpAddr, Ipv4Addr};

use forwarded::{ForwardingHeaders, client_of};
use libfuzzer_sys::fuzz_target;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// Everything in 10.0.0.0/8 is a proxy.
fn is_proxy(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(ip) if ip.octets()[0] == 10)
}

fuzz_target!(|data: &[u8]| {
    // Lines are the values of the four headers in turn.
    let mut headers = ForwardingHeaders::default();
    for (index, line) in data.split(|b| *b == b'\n').enumerate() {
        let list = match index % 4 {
            0 => &mut headers.forwarded,
            1 => &mut headers.x_for,
            2 => &mut headers.x_proto,
            _ => &mut headers.x_host,
        };
        list.push(line);
    }
    if let Ok(client) = client_of(&headers, is_proxy) {
        assert!(client.host.is_none_or(|host| !host.is_empty() && !host.contains([' ', ',', '/'])));
    }
    // A proxy appends to one header or the other, and removes the rest.
    let appended = [data, b", for=192.0.2.7;proto=https"].concat();
    let standard = ForwardingHeaders { forwarded: vec![&appended], ..ForwardingHeaders::default() };
    if let Ok(client) = client_of(&standard, is_proxy) {
        assert_eq!((client.address, client.encrypted), (CLIENT, true));
    }
    let (x_for, x_proto) = ([data, b", 192.0.2.7"].concat(), [data, b",https"].concat());
    let x = ForwardingHeaders { x_for: vec![&x_for], x_proto: vec![&x_proto], ..ForwardingHeaders::default() };
    assert_eq!(client_of(&x, is_proxy).map(|client| (client.address, client.encrypted)), Ok((CLIENT, true)));
});
