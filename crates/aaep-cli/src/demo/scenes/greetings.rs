//! Five languages: every announcement has its variants, and each output says which language it is in.

use aaep::message::{Localized, Progress, ProgressUpdated, SessionCompleted};
use aaep::{Error, Producer, SessionOptions};

use super::{Pace, as_written, tag, tokens};

/// One thing to say, in English and the other languages of the scenes.
type Text = (&'static str, [(&'static str, &'static str); 4]);

const OPENING: Text = (
    "Collecting the opening hours of the library.",
    [
        ("es", "Reuniendo el horario de la biblioteca."),
        ("de", "Ich suche die Öffnungszeiten der Bibliothek zusammen."),
        ("ar", "أجمع ساعات عمل المكتبة."),
        ("yo", "Mò ń kó àwọn wákàtí ilé ìkàwé jọ."),
    ],
);

const LOOKUP: Text = (
    "Asking the library's calendar.",
    [
        ("es", "Consultando el calendario de la biblioteca."),
        ("de", "Ich frage den Kalender der Bibliothek."),
        ("ar", "أراجع تقويم المكتبة."),
        ("yo", "Mò ń wo kàlẹ́ńdà ilé ìkàwé."),
    ],
);

const HALF: Text = (
    "The hours are known. Writing them down.",
    [
        ("es", "Ya tengo el horario. Lo escribo."),
        ("de", "Die Zeiten sind bekannt. Ich schreibe sie auf."),
        ("ar", "أصبحت الساعات معروفة. أكتبها الآن."),
        ("yo", "Mo ti mọ àwọn wákàtí náà. Mò ń kọ wọ́n sílẹ̀."),
    ],
);

const HOURS: Text = (
    "The library is open from nine to six. On Sunday it is closed.",
    [
        ("es", "La biblioteca abre de nueve a seis. El domingo está cerrada."),
        ("de", "Die Bibliothek ist von neun bis achtzehn Uhr geöffnet. Am Sonntag ist sie geschlossen."),
        ("ar", "المكتبة مفتوحة من التاسعة صباحا حتى السادسة مساء. وهي مغلقة يوم الأحد."),
        ("yo", "Ilé ìkàwé ń ṣí láti agogo mẹ́sàn-án títí di agogo mẹ́fà. Wọ́n máa ń tì í ní ọjọ́ Àìkú."),
    ],
);

const CLOSING: Text = (
    "The opening hours are ready in five languages.",
    [
        ("es", "El horario está listo en cinco idiomas."),
        ("de", "Die Öffnungszeiten sind in fünf Sprachen fertig."),
        ("ar", "ساعات العمل جاهزة بخمس لغات."),
        ("yo", "Àwọn wákàtí náà ti wà ní èdè márùn-ún."),
    ],
);

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let mut options = SessionOptions::new(OPENING.0);
    options.variants = spoken((), &OPENING).variants;
    let session = producer.session_with(options).await?;
    pace.step().await;
    let mut lookup = session.tool("read_calendar").summary(LOOKUP.0);
    for (language, text) in LOOKUP.1 {
        lookup = lookup.text_in("summary_normal", &tag(language), text);
    }
    let reading = async {
        pace.step().await;
        Ok(())
    };
    as_written(lookup.run(reading).await)?;
    let progress = Progress { step: Some(1), total_steps: Some(2), ..Progress::default() };
    let updated = ProgressUpdated { progress, summary_normal: Some(HALF.0.to_owned()), ..ProgressUpdated::default() };
    session.emit_localized(spoken(updated, &HALF).into_payload()).await?;
    pace.step().await;
    for (language, text) in std::iter::once(("en", HOURS.0)).chain(HOURS.1) {
        let output = session.output_in("text/plain", Some(tag(language))).await?;
        for token in tokens(text) {
            output.write(token).await?;
            pace.token().await;
        }
        output.finish().await?;
        pace.step().await;
    }
    let completed = SessionCompleted { summary_normal: CLOSING.0.to_owned(), ..SessionCompleted::default() };
    session.end_with(spoken(completed, &CLOSING).into_payload()).await
}

/// A payload whose summary is said in all languages.
fn spoken<T>(payload: T, (_, others): &Text) -> Localized<T> {
    let add = |said: Localized<T>, (language, text): &(&str, &'static str)| {
        said.text("summary_normal", &tag(language), *text)
    };
    others.iter().fold(Localized::new(payload), add)
}
