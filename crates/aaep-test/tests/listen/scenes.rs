//! Every scene of the demo, and all speech about it, word for word.

use super::said::{Said, important, message, progress, text};
use super::speech::ENGLISH;

/// A scene, the answers of the user, and the expected speech.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// The languages of the profile.
    pub(crate) languages: &'static str,
    /// The end of a question, and the line to enter once it was spoken.
    pub(crate) answers: &'static [(&'static str, &'static str)],
    pub(crate) said: Vec<Said>,
}

const YES_OR_NO: &str =
    "You have 2 minutes to answer. Without an answer the agent goes on without it. Answer yes or no.";

/// Returns all scenes. Scenes with a consequential question are played with both answers.
pub(crate) fn scenes() -> Vec<Scene> {
    let scene = |name, answers, said| Scene { name, languages: ENGLISH, answers, said };
    vec![
        scene("banking", &[("Answer yes or no.", "yes")], banking(&transferred())),
        scene("banking", &[("Answer yes or no.", "no")], banking(&kept())),
        scene(
            "trip",
            &[
                ("Answer in your own words.", "Ibadan"),
                ("Answer with the number of your choice.", "3"),
                ("Answer with a number.", "4"),
                ("Answer yes or no.", "yes"),
            ],
            trip(),
        ),
        scene("printer", &[], printer()),
        scene("photos", &[("Answer yes or no.", "no")], photos(&sorted())),
        scene("photos", &[("Answer yes or no.", "yes")], photos(&stopped())),
        scene("support", &[], support()),
        scene("greetings", &[], greetings()),
        scene("report", &[], report()),
        Scene { languages: "[\"de\", \"en\"]", ..scene("banking", &[("Ja oder Nein.", "nein")], banking_in_german()) },
    ]
}

/// Texts with a German variant are spoken in German, with a German voice; others as they are.
fn banking_in_german() -> Vec<Said> {
    let german = |said: Said| said.in_language("de");
    vec![
        message("Looking after your transfer to savings."),
        message("Looking up your checking balance."),
        message("Your checking account holds 12,500 dollars."),
        message("Checking that there is enough money."),
        german(important("Demo fragt: 500 Dollar vom Girokonto auf das Sparkonto überweisen.")),
        german(message("Das Geld wird sofort bewegt und die Bank kann es nicht zurückholen.")),
        german(message("Das lässt sich nicht rückgängig machen. Hohes Risiko.")),
        german(message(
            "Zeit für die Antwort: 5 Minuten. Ohne Antwort wird es nicht getan. Antworte mit Ja oder Nein.",
        )),
        german(message("Gesendet: nein.")),
        german(message("Abgelehnt. Es wird nicht getan.")),
        text("en", "All right. Nothing was transferred, and your money stays where it is."),
        message("Done. Nothing was transferred, as you wished."),
    ]
}

fn banking(rest: &[Said]) -> Vec<Said> {
    let mut said = vec![
        message("Looking after your transfer to savings."),
        message("Looking up your checking balance."),
        message("Your checking account holds 12,500 dollars."),
        message("Checking that there is enough money."),
        important("Demo asks: Transfer 500 dollars from checking to savings."),
        message("The money moves at once and the bank cannot take it back."),
        message("This cannot be undone. High risk."),
        message("You have 5 minutes to answer. Without an answer it will not be done. Answer yes or no."),
    ];
    said.extend_from_slice(rest);
    said
}

fn transferred() -> Vec<Said> {
    vec![
        message("Sent: yes."),
        message("Accepted. Going ahead."),
        message("Transferring 500 dollars to savings."),
        message("The transfer is done."),
        text("en", "Transferred $500 successfully. New balance: $12,000."),
        message("Done. 500 dollars are in savings now. Checking holds 12,000 dollars."),
    ]
}

fn kept() -> Vec<Said> {
    vec![
        message("Sent: no."),
        message("Rejected. It will not be done."),
        text("en", "All right. Nothing was transferred, and your money stays where it is."),
        message("Done. Nothing was transferred, as you wished."),
    ]
}

fn trip() -> Vec<Said> {
    vec![
        message("Planning a trip for you."),
        important("Demo asks: Where would you like to go?"),
        message(
            "You have 2 minutes to answer. Without an answer the agent goes on without it. Answer in your own words.",
        ),
        message("Sent: Ibadan."),
        message("Answered. Going on."),
        important("Question 2. Demo asks: How would you like to travel?"),
        message("All three arrive before noon."),
        message("There are 3 choices. 1: By train. 2: By bus. 3: By ferry."),
        message(
            "You have 2 minutes to answer. Without an answer this is assumed: By train. Answer with the number of your \
             choice.",
        ),
        message("Sent: By ferry."),
        message("Answered. Going on."),
        important("Question 3. Demo asks: How many people travel?"),
        message("You have 2 minutes to answer. Without an answer the agent goes on without it. Answer with a number."),
        message("Sent: 4."),
        message("Answered. Going on."),
        important("Question 4. Demo asks: Shall I look for quiet seats?"),
        message(YES_OR_NO),
        message("Sent: yes."),
        message("Answered. Going on."),
        text(
            "en",
            "Here is the plan. You travel to Ibadan by ferry. Travellers: 4. I look for quiet seats. Nothing is booked yet.",
        ),
        message("Done. The plan of your trip is ready. Nothing is booked."),
    ]
}

fn printer() -> Vec<Said> {
    vec![
        message("Printing your ticket."),
        message("Sending the ticket to the printer in the hall."),
        message("print page failed: The printer says that paper is jammed."),
        message("Trying the other printer."),
        message("Sending the ticket to the printer upstairs."),
        message("print page failed: It took too long."),
        important("Failed: The ticket could not be printed on either printer."),
        message("It needs you to do something first."),
        message("What you can do: Open the printer in the hall, take out the paper, and ask me again."),
    ]
}

fn photos(rest: &[Said]) -> Vec<Said> {
    let mut said = vec![
        message("Sorting 400 photos by place."),
        progress("100 of 400 photos are sorted."),
        progress("200 of 400 photos are sorted."),
        important("Demo asks: Half is done. Shall I stop here?"),
        message(YES_OR_NO),
    ];
    said.extend_from_slice(rest);
    said
}

fn sorted() -> Vec<Said> {
    vec![
        message("Sent: no."),
        message("Answered. Going on."),
        progress("300 of 400 photos are sorted."),
        message("Done. All 400 photos are sorted."),
    ]
}

fn stopped() -> Vec<Said> {
    vec![
        message("Sent: yes."),
        message("Answered. Going on."),
        message("Cancelled by you. The other photos stay where they are."),
        message("Before that: 200 of 400 photos are sorted."),
    ]
}

fn support() -> Vec<Said> {
    vec![
        message("Looking into your bill."),
        message("Fetching the bill of May."),
        message("The bill lists one call twice."),
        message("This needs someone who may change bills."),
        important("Demo hands over to a person: Only a person may take back a charge."),
        message("A person from support takes over. You need not repeat what you said."),
        message("Done. Your bill is with a person from support now."),
    ]
}

fn greetings() -> Vec<Said> {
    vec![
        message("Collecting the opening hours of the library."),
        message("Asking the library's calendar."),
        progress("The hours are known. Writing them down."),
        text("en", "The library is open from nine to six. On Sunday it is closed."),
        text("es", "La biblioteca abre de nueve a seis. El domingo está cerrada."),
        text("de", "Die Bibliothek ist von neun bis achtzehn Uhr geöffnet. Am Sonntag ist sie geschlossen."),
        text("ar", "المكتبة مفتوحة من التاسعة صباحا حتى السادسة مساء. وهي مغلقة يوم الأحد."),
        text("yo", "Ilé ìkàwé ń ṣí láti agogo mẹ́sàn-án títí di agogo mẹ́fà. Wọ́n máa ń tì í ní ọjọ́ Àìkú."),
        message("Done. The opening hours are ready in five languages."),
    ]
}

/// Headings and lists are spoken as sentences, a table cell by cell, code by its name.
fn report() -> Vec<Said> {
    vec![
        message("Writing a report about water in the garden."),
        message("Reading the water meter of May."),
        message("The meter has a reading for every hour."),
        text(
            "en",
            "Water in the garden. This report tells how much water the garden used in May, and what could be saved. It \
             was written by a small program that reads the meter every hour. What was measured. The garden has three \
             zones. Each one has its own valve, and each valve was open for a while every evening. Dr. Okoro checked \
             the meter twice, on 3 May and on 17 May; both readings agreed with ours to within 0.5 litres. Table, 3 \
             columns, 3 rows. Zone: Beans, Minutes: 120, Litres: 960. Zone: Roses, Minutes: 90, Litres: 540. Zone: \
             Orchard, Minutes: 300, Litres: 3,600. The orchard takes most of the water. That is no surprise: it is the \
             largest zone, and it lies in the sun all day. What could be saved. Water the orchard before sunrise. Less \
             water is lost to the air. Cover the soil under the beans with straw. Leave the roses as they are. The \
             first change alone saves about 700 litres a month. Here is the rule for the controller: Python code, 4 \
             lines. What comes next. The straw can be bought nearby. If you like, I can compare prices. Nothing has \
             been ordered.",
        ),
        message("Done. The report about water in the garden is ready."),
    ]
}
