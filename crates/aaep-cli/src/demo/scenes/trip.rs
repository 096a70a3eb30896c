//! Questions of all four kinds. Each has an assumption to go on with when nobody answers.

use aaep::message::Response;
use aaep::{Clarification, Error, Producer, Session};

use super::{Pace, tag, tell};

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session("Planning a trip for you.").await?;
    pace.step().await;
    let city = ask_city(&session).await?;
    pace.step().await;
    let vehicle = ask_vehicle(&session).await?;
    pace.step().await;
    let people = session.ask_number("How many people travel?").await?.unwrap_or(1.0);
    pace.step().await;
    let quiet = session.ask_yes_no("Shall I look for quiet seats?").await?.unwrap_or(false);
    pace.step().await;
    let seats = if quiet { "quiet seats" } else { "any seats" };
    let plan = format!(
        "Here is the plan. You travel to {city} by {vehicle}. Travellers: {people}. I look for {seats}. \
         Nothing is booked yet."
    );
    tell(&session, pace, "text/plain", &plan).await?;
    session.complete("The plan of your trip is ready. Nothing is booked.").await
}

/// Any text will do.
async fn ask_city(session: &Session) -> Result<String, Error> {
    let question = Clarification::freetext("Where would you like to go?")
        .in_language(&tag("de"), "Wohin möchtest du reisen?")
        .in_language(&tag("es"), "¿Adónde quieres ir?");
    Ok(match session.clarify(question).await?.response {
        Some(Response::Text(city)) if !city.trim().is_empty() => city.trim().to_owned(),
        _ => "a place of your choice".to_owned(),
    })
}

/// One of three.
async fn ask_vehicle(session: &Session) -> Result<&'static str, Error> {
    let choices = [("train", "By train"), ("bus", "By bus"), ("ferry", "By ferry")];
    let question = Clarification::choice("How would you like to travel?", choices)
        .context("All three arrive before noon.")
        .default_response("train");
    Ok(match session.clarify(question).await?.response {
        Some(Response::Text(choice)) if choice == "bus" => "bus",
        Some(Response::Text(choice)) if choice == "ferry" => "ferry",
        _ => "train",
    })
}
