//! The resources that a server reserves for a subscription.

use aaep_proto::negotiate::Rejection;

/// The resources that a server reserves for one subscription. The subscription holds its reservation until it ends, also while
/// it has no connection. Dropping the reservation frees the resources.
///
/// ```
/// use aaep::transport::{Reservation, Rejection};
///
/// #[derive(Debug)]
/// struct Unlimited;
///
/// impl Reservation for Unlimited {
///     fn resize(&mut self, _bytes: usize) -> Result<(), Rejection> {
///         Ok(())
///     }
/// }
///
/// assert!(Unlimited.resize(1 << 20).is_ok());
/// ```
pub trait Reservation: std::fmt::Debug + Send {
    /// Changes how many bytes the subscription may occupy in total. An error rejects the renegotiation that needs
    /// them.
    fn resize(&mut self, bytes: usize) -> Result<(), Rejection>;
}
