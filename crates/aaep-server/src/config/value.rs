//! How values of settings are parsed that have a syntax of their own.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Deserializer, de::Error};

use super::layer::nearest;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Parses an address and a port. The host may be `localhost`.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_address(&text).ok_or_else(|| D::Error::custom("give an address and a port, such as 127.0.0.1:8377"))
}

/// Parses an address and a port, which are set if this is called.
pub(super) fn optional_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => {
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)))
        }
        _ => text.parse().ok(),
    }
}

/// Parses a filter of logs. A word alone must be a level: the filter itself would take any other word for the name of a
/// module, and log nothing.
pub(super) fn log_filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Spans and fields have a syntax that is checked when logging starts.
    if !text.contains('[') {
        for part in text.split(',') {
            let level = part.rsplit('=').next().unwrap_or(part).trim();
            if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
                return Err(D::Error::custom(level_hint(level)));
            }
        }
    }
    Ok(text)
}

fn level_hint(wrong: &str) -> String {
    let nearest = nearest(&wrong.to_lowercase(), LEVELS.iter().copied()).map(|level| format!("did you mean {level}? "));
    let levels = "Levels are error, warn, info, debug, trace and off, and aaep_server=debug sets that of one part";
    format!("{}{levels}", nearest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Layer};
    use super::*;

    #[test]
    fn localhost_is_this_machine() {
        assert_eq!(parse_address("localhost:8377"), "127.0.0.1:8377".parse().ok());
        assert_eq!(parse_address("[::1]:1"), "[::1]:1".parse().ok());
        for wrong in ["localhost", "localhost:", "localhost:70000", "8377", ":8377", "example.org:1", ""] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn filters_name_levels() {
        let filter = |text: &str| {
            let mut layer = Layer::default();
            layer.set_flag("--log", "log.filter", text);
            Config::from_layers([layer]).map(|config| config.log.filter).map_err(|error| error.to_string())
        };
        for good in ["debug", "INFO", "info,aaep_server=trace", "off", "warn, hyper=error", "[span]=debug"] {
            assert_eq!(filter(good).as_deref(), Ok(good));
        }
        let error = filter("inf").unwrap_err();
        assert!(error.starts_with("--log: log.filter cannot be \"inf\": did you mean info? "), "{error}");
        for wrong in ["", "aaep_server", "aaep_server=debg", "info,,", "7up"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }
}
