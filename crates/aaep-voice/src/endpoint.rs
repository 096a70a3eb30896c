//! The address of a service, and how to connect to it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The address of a service.
///
/// ```
/// use aaep_voice::Endpoint;
/// assert_eq!(Endpoint::Tcp("localhost".into(), 6560).to_string(), "localhost:6560");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A TCP host and port.
    Tcp(String, u16),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
            Endpoint::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// A bidirectional byte stream over any kind of socket.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Endpoint {
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            #[cfg(unix)]
            Endpoint::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}
