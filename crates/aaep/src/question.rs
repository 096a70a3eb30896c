//! Questions to the user. A question is withdrawn when the agent stops waiting for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aaep_proto::confirm::{Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Response;
use tokio::sync::oneshot;

use crate::driver::Handle;
use crate::error::Error;
use crate::session::Session;

/// An open question. Awaiting it waits until the question is resolved; dropping it withdraws the question. Returned by
/// [`Session::ask_confirmation`] and [`Session::ask_clarification`].
///
/// ```
/// use aaep::{Confirmation, NoSubscriberPolicy, Producer, Resolution};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault).build();
/// let session = producer.session("Planning your garden.").await?;
/// let question = session.ask_confirmation(Confirmation::new("Order seeds.", "They cost 12 dollars.")).await?;
/// println!("replies carry {}", question.token());
/// assert_eq!(question.await?.resolution, Resolution::NobodyCouldAnswer);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a question withdraws it"]
pub struct Question<T> {
    handle: Handle,
    token: ReplyToken,
    outcome: oneshot::Receiver<T>,
    resolved: bool,
}

impl<T> Question<T> {
    fn new(handle: Handle, (token, outcome): (ReplyToken, oneshot::Receiver<T>)) -> Question<T> {
        Question { handle, token, outcome, resolved: false }
    }

    /// Returns the token that replies to this question carry.
    pub fn token(&self) -> &ReplyToken {
        &self.token
    }
}

impl<T> Future for Question<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        self.resolved = true;
        Poll::Ready(outcome.map_err(|_| Error::Gone))
    }
}

impl<T> Drop for Question<T> {
    fn drop(&mut self) {
        if self.resolved {
            return;
        }
        let token = self.token.clone();
        self.handle.send(move |driver| {
            // An error means that it was resolved meanwhile, so there is nothing to withdraw.
            let _ = driver.with_engine(|engine, cx| engine.withdraw(cx, &token, false));
        });
    }
}

/// Asking the user.
impl Session {
    /// Asks for a confirmation and waits until it is resolved: by the user, or by its default after the timeout.
    /// Cancelling the wait withdraws the question.
    ///
    /// ```
    /// use aaep::message::Decision;
    /// use aaep::{Confirmation, Producer, NoSubscriberPolicy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let producer = Producer::builder("gardener").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault).build();
    /// # let session = producer.session("Planning your garden.").await?;
    /// let outcome = session.confirm(Confirmation::new("Order seeds.", "They cost 12 dollars.")).await?;
    /// assert_eq!(outcome.decision, Decision::Reject, "nobody was there to agree");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn confirm(&self, confirmation: Confirmation) -> Result<ConfirmationOutcome, Error> {
        self.ask_confirmation(confirmation).await?.await
    }

    /// Asks for a confirmation and returns the open question, which can be awaited later.
    pub async fn ask_confirmation(&self, confirmation: Confirmation) -> Result<Question<ConfirmationOutcome>, Error> {
        let (handle, id) = (self.handle.clone(), self.id.clone());
        let asked = self.handle.call(move |driver| {
            let question = driver.ask_confirmation(&id, confirmation)?;
            Ok::<_, Error>(Question::new(handle, question))
        });
        asked.await?
    }

    /// Asks for a clarification and waits until it is resolved. Cancelling the wait withdraws the question.
    pub async fn clarify(&self, clarification: Clarification) -> Result<ClarificationOutcome, Error> {
        self.ask_clarification(clarification).await?.await
    }

    /// Asks for a clarification and returns the open question, which can be awaited later.
    pub async fn ask_clarification(
        &self,
        clarification: Clarification,
    ) -> Result<Question<ClarificationOutcome>, Error> {
        let (handle, id) = (self.handle.clone(), self.id.clone());
        let asked = self.handle.call(move |driver| {
            let question = driver.ask_clarification(&id, clarification)?;
            Ok::<_, Error>(Question::new(handle, question))
        });
        asked.await?
    }

    /// Asks for any text. Returns `None` if the user did not answer.
    pub async fn ask_text(&self, question: impl Into<String>) -> Result<Option<String>, Error> {
        self.clarify(Clarification::freetext(question)).await.map(text)
    }

    /// Asks for yes or no. Returns `None` if the user did not answer.
    pub async fn ask_yes_no(&self, question: impl Into<String>) -> Result<Option<bool>, Error> {
        let answer = self.clarify(Clarification::yes_no(question)).await?;
        Ok(match answer.response {
            Some(Response::Boolean(yes)) => Some(yes),
            _ => None,
        })
    }

    /// Asks for a number. Returns `None` if the user did not answer.
    pub async fn ask_number(&self, question: impl Into<String>) -> Result<Option<f64>, Error> {
        let answer = self.clarify(Clarification::numeric(question)).await?;
        Ok(match answer.response {
            Some(Response::Number(number)) => Some(number),
            _ => None,
        })
    }

    /// Asks for one of these choices, given as value and label. Returns the chosen value, or `None` if the user did not
    /// answer.
    pub async fn ask_choice<V: Into<String>, L: Into<String>>(
        &self,
        question: impl Into<String>,
        choices: impl IntoIterator<Item = (V, L)>,
    ) -> Result<Option<String>, Error> {
        self.clarify(Clarification::choice(question, choices)).await.map(text)
    }
}

fn text(answer: ClarificationOutcome) -> Option<String> {
    match answer.response {
        Some(Response::Text(text)) => Some(text),
        _ => None,
    }
}
