//! Layers of settings: a file, the environment, flags. Each value keeps where it was set, so that an error can name it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::{Config, ConfigError};

/// Variables with our prefix that are not settings of a server: for clients and agents, and for the tests of this project.
const OTHER_VARIABLES: [&str; 7] = ["TOKEN", "URL", "BIN", "SEED", "SEEDS", "WRITE", "SUITE_RUNS"];

/// Prefixes of such variables. Kubernetes sets `AAEP_SERVICE_HOST` and `AAEP_PORT_8377_TCP` for a service named `aaep`.
const OTHER_PREFIXES: [&str; 3] = ["BENCH_", "SERVICE_", "PORT"];

/// One source of settings, to be combined with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    table: Table,
    /// Where each value was set, by its path.
    origins: BTreeMap<String, String>,
}

impl Layer {
    /// Parses settings in TOML. Returns an error for what is not TOML or not a setting.
    pub fn from_toml(text: &str) -> Result<Layer, ConfigError> {
        Layer::parse(text, None)
    }

    /// Reads settings from a TOML file.
    pub fn from_file(path: &Path) -> Result<Layer, ConfigError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| ConfigError(format!("cannot read {}: {e}", path.display())))?;
        Layer::parse(&text, Some(path))
    }

    fn parse(text: &str, file: Option<&Path>) -> Result<Layer, ConfigError> {
        let place = |offset: usize| {
            let line = 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
            file.map_or_else(|| format!("line {line}"), |file| format!("{}, line {line}", file.display()))
        };
        let parsed = DeTable::parse(text).and_then(|spans| Ok((spans, text.parse::<Table>()?)));
        let (spans, table) = parsed.map_err(|error| {
            let message: Vec<&str> = error.message().lines().map(str::trim).collect();
            let place = place(error.span().map_or(0, |span| span.start));
            ConfigError(format!("{place}: {}; write settings as in: listen = \"127.0.0.1:8377\"", message.join(", ")))
        })?;
        let mut layer = Layer { table, origins: BTreeMap::new() };
        collect_origins(spans.get_ref(), "", &place, &mut layer.origins);
        layer.check()?;
        Ok(layer)
    }

    /// Reads settings from environment variables: `AAEP_LISTEN`, or `AAEP_LIMITS__CONNECTIONS` for a setting in a section.
    /// A list is separated by commas. Variables without the prefix `AAEP_` are ignored; one that has the prefix and is not
    /// a setting is an error.
    pub fn from_env(variables: impl IntoIterator<Item = (String, String)>) -> Result<Layer, ConfigError> {
        let known = settings();
        let mut layer = Layer::default();
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix("AAEP_") else { continue };
            if OTHER_VARIABLES.contains(&name) || OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let path = name.to_lowercase().replace("__", ".");
            let Some(example) = known.get(&path) else {
                let nearest = nearest(&path, known.keys()).map(|path| variable_of(path));
                let hint = nearest.map(|name| format!("did you mean {name}?"));
                let hint = hint.unwrap_or_else(|| "aaep serve --print-config lists the settings; unset it".to_owned());
                return Err(ConfigError(format!("{variable} is not a setting; {hint}")));
            };
            layer.set(&path, parse_value(&text, example));
            layer.origins.insert(path, variable);
        }
        layer.check()?;
        Ok(layer)
    }

    /// Sets one value by its path, such as `limits.connections`.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) {
        let mut parts: Vec<&str> = path.split('.').collect();
        let Some(last) = parts.pop() else { return };
        let mut at = &mut self.table;
        for part in parts {
            let next = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
            if !next.is_table() {
                *next = Value::Table(Table::new());
            }
            let Value::Table(table) = next else { return };
            at = table;
        }
        at.insert(last.to_owned(), value.into());
    }

    /// Sets one value by its path, and the flag that it came from, for errors.
    pub fn set_flag(&mut self, flag: &str, path: &str, value: impl Into<Value>) {
        self.set(path, value);
        self.origins.insert(path.to_owned(), flag.to_owned());
    }

    /// Returns whether the layer sets the value with this path.
    pub fn has(&self, path: &str) -> bool {
        leaves(&self.table, "").iter().any(|(known, _)| known == path)
    }

    /// Checks each value by itself. Returns an error that says where it was set and what is expected.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let known = settings();
        for (path, value) in leaves(&self.table, "") {
            let place = self.origins.get(&path).map(|place| format!("{place}: ")).unwrap_or_default();
            let Some(example) = known.get(&path) else {
                let hint = nearest(&path, known.keys()).map(|name| format!("did you mean {name}?"));
                let hint = hint.unwrap_or_else(|| "aaep serve --print-config lists the settings; remove it".to_owned());
                return Err(ConfigError(format!("{place}{path} is not a setting; {hint}")));
            };
            let mut alone = Layer::default();
            alone.set(&path, value.clone());
            if let Err(error) = alone.table.try_into::<Config>() {
                let why = expected(example).map_or_else(|| error.message().to_owned(), str::to_owned);
                let why = if value.same_type(example) { error.message().to_owned() } else { why };
                return Err(ConfigError(format!("{place}{path} cannot be {value}: {}", one_line(&why))));
            }
        }
        Ok(())
    }

    pub(super) fn over(self, below: Table) -> Table {
        merge(below, self.table)
    }
}

fn merge(mut below: Table, above: Table) -> Table {
    for (key, value) in above {
        let value = match (below.remove(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => Value::Table(merge(old, new)),
            (_, new) => new,
        };
        below.insert(key, value);
    }
    below
}

/// Returns every setting with a value of its type, by path.
pub(super) fn settings() -> BTreeMap<String, Value> {
    let table = Table::try_from(Config::every_field()).unwrap_or_default();
    leaves(&table, "").into_iter().map(|(path, value)| (path, value.clone())).collect()
}

/// Returns the values of a table and of the tables in it, with their paths.
fn leaves<'a>(table: &'a Table, prefix: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(inner) if prefix.is_empty() => found.extend(leaves(inner, &format!("{path}."))),
            value => found.push((path, value)),
        }
    }
    found
}

fn collect_origins(
    table: &DeTable<'_>,
    prefix: &str,
    place: &dyn Fn(usize) -> String,
    origins: &mut BTreeMap<String, String>,
) {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) if prefix.is_empty() => collect_origins(inner, &format!("{path}."), place, origins),
            _ => drop(origins.insert(path, place(key.span().start))),
        }
    }
}

/// Parses the text of a variable as a value of the same type as the example. Text that cannot be parsed stays a string,
/// so that the check of the layer reports it.
fn parse_value(text: &str, example: &Value) -> Value {
    let toml = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    let parsed = match example {
        // A text stays as it is, whatever it looks like, unless it is quoted as in the file.
        Value::String(_) => toml().filter(Value::is_str),
        Value::Array(_) => toml().filter(Value::is_array).or_else(|| {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Some(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }),
        _ => toml(),
    };
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Says what a setting of the type of this value expects.
fn expected(example: &Value) -> Option<&'static str> {
    match example {
        Value::Integer(_) => Some("give a whole number"),
        Value::Boolean(_) => Some("give true or false"),
        Value::Array(_) => Some("give a list such as [\"a\", \"b\"]"),
        Value::String(_) => Some("give a text in quotation marks"),
        _ => None,
    }
}

/// Returns the name of the environment variable of a setting.
pub(super) fn variable_of(path: &str) -> String {
    format!("AAEP_{}", path.to_uppercase().replace('.', "__"))
}

/// Returns the name that a misspelt one was probably meant to be. A name in another section counts too.
pub(super) fn nearest<'a, T: AsRef<str> + ?Sized>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a T>,
) -> Option<&'a T> {
    let last = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
    let distance = |name: &'a str| {
        let whole = strsim::damerau_levenshtein(wrong, name);
        if last(name) == wrong { whole.min(1) } else { whole }
    };
    let scored = names.into_iter().map(|name| (distance(name.as_ref()), name));
    scored
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + wrong.len() / 5)
        .map(|(_, n)| n)
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Layer::from_toml(text).unwrap_err().to_string()
    }

    fn env(name: &str, value: &str) -> Result<Config, ConfigError> {
        Config::from_layers([Layer::from_env([(name.to_owned(), value.to_owned())])?])
    }

    #[test]
    fn errors_are_one_line_with_place_key_and_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("aaep.toml");
        std::fs::write(&file, "agent_id = \"a\"\n\n[limits]\nconections = 5\n").unwrap();
        assert_eq!(
            Layer::from_file(&file).unwrap_err().to_string(),
            format!("{}, line 4: limits.conections is not a setting; did you mean limits.connections?", file.display())
        );
        assert_eq!(
            error("[limits]\nconnections = \"many\""),
            "line 2: limits.connections cannot be \"many\": give a whole number"
        );
        assert_eq!(error("hosts = \"a\""), "line 1: hosts cannot be \"a\": give a list such as [\"a\", \"b\"]");
        assert_eq!(
            error("\nconnections = 5"),
            "line 2: connections is not a setting; did you mean limits.connections?"
        );
        assert!(
            error("flavour = 5")
                .ends_with("flavour is not a setting; aaep serve --print-config lists the settings; remove it")
        );
        assert!(error("listen = \"8377\"").contains("give an address and a port, such as 127.0.0.1:8377"));
        assert!(
            error("[log]\nfilter = \"debg\"").contains("line 2: log.filter cannot be \"debg\": did you mean debug?")
        );
        for wrong in ["listen = ", "[limits", "a = 'b\nc'", "x = [1,", "= 3"] {
            let error = error(wrong);
            assert!(error.starts_with("line ") && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn variables_are_read_by_the_type_of_their_setting() {
        assert_eq!(env("AAEP_HOSTS", "a,b").unwrap().hosts, ["a", "b"]);
        assert_eq!(env("AAEP_HOSTS", "[\"a\", \"b\"]").unwrap().hosts, ["a", "b"]);
        assert_eq!(env("AAEP_AGENT_ID", "42").unwrap().agent_id, "42");
        assert_eq!(env("AAEP_AGENT_ID", "\"x y\"").unwrap().agent_id, "x y");
        assert_eq!(env("AAEP_LIMITS__CONNECTIONS", "7").unwrap().limits.connections, 7);
        assert!(!env("AAEP_TRANSPORTS__UNIX", "false").unwrap().transports.unix);
        assert_eq!(env("AAEP_LANGUAGES", "en,de").unwrap().languages.len(), 2);
        let error = env("AAEP_LIMITS__CONNECTIONS", "many").unwrap_err().to_string();
        assert_eq!(error, "AAEP_LIMITS__CONNECTIONS: limits.connections cannot be \"many\": give a whole number");
    }

    #[test]
    fn misspelt_variables_are_errors_and_those_of_others_are_not() {
        let error = env("AAEP_LISTN", "x").unwrap_err().to_string();
        assert_eq!(error, "AAEP_LISTN is not a setting; did you mean AAEP_LISTEN?");
        let error = env("AAEP_LIMITS_CONNECTIONS", "5").unwrap_err().to_string();
        assert_eq!(error, "AAEP_LIMITS_CONNECTIONS is not a setting; did you mean AAEP_LIMITS__CONNECTIONS?");
        for other in ["AAEP_TOKEN", "AAEP_URL", "AAEP_SERVICE_HOST", "AAEP_PORT", "AAEP_PORT_8377_TCP", "PATH"] {
            assert_eq!(env(other, "x").unwrap(), Config::default(), "{other}");
        }
    }
}
