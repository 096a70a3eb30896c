//! Flags of every command that connects to agents.

use std::path::{Path, PathBuf};

use aaep_client::{ConnectOptions, TlsIdentity, TlsOptions};

/// Flags of every command that connects to agents.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct ConnectFlags {
    /// File with the bearer token [default: the token in AAEP_TOKEN] [env: AAEP_TOKEN holds the token itself]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Additional certificates to trust (PEM): of authorities, or the self-signed one of the server itself
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Your client certificate (PEM), for servers that want one; needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of your client certificate (PEM); needs --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// User to subscribe for, if it is not yourself; the token must name them
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Allow unencrypted connections to other hosts
    #[arg(long)]
    plain: bool,
}

impl ConnectFlags {
    /// Adds the flags to the options of a subscriber. The error names the file that cannot be used.
    pub(crate) fn apply(&self, mut options: ConnectOptions) -> Result<ConnectOptions, String> {
        options.allow_insecure = self.plain;
        if let Some(user) = &self.user {
            let request = &mut options.config.request;
            request.capabilities = std::mem::take(&mut request.capabilities).for_user(user);
        }
        if let Some(token) = self.token()? {
            options = options.bearer(token);
        }
        let mut tls = TlsOptions::default();
        if let Some(path) = &self.ca {
            tls.authorities = read(path)?;
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            tls.identity = Some(TlsIdentity { chain: read(cert)?, key: secret(key)?.into_bytes() });
        }
        Ok(options.tls(tls))
    }

    fn token(&self) -> Result<Option<String>, String> {
        let token = match &self.token {
            Some(path) => Some(secret(path)?),
            None => std::env::var("AAEP_TOKEN").ok(),
        };
        Ok(token.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn secret(path: &Path) -> Result<String, String> {
    aaep_keys::file::read_secret(path).map_err(|error| format!("{} {error}", path.display()))
}
