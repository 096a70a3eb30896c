# German. Waits for review by a native speaker.

agent-unknown = Der Agent
agent-says = { $agent }: { $text }

done = Fertig.
failed = Fehlgeschlagen: { $text }
failed-remedy = Das kannst du tun: { $hint }
failed-retry = Ein neuer Versuch kann helfen.
failed-no-retry = Ein neuer Versuch hilft nicht.
failed-needs-you = Du musst zuerst etwas tun.
cancelled-user = Von dir abgebrochen.
cancelled-producer = Vom Agenten abgebrochen.
cancelled-timeout = Abgebrochen, weil die Zeit um war.
cancelled-system = Vom System abgebrochen.
cancelled-other = Abgebrochen.
partial-result = Davor: { $text }

handoff-human = { $agent } übergibt an einen Menschen: { $reason }
handoff-specialist = { $agent } übergibt an einen Fachagenten: { $reason }
handoff-queue = { $agent } übergibt an eine Warteschlange: { $reason }
handoff-other = { $agent } übergibt: { $reason }
handoff-urgent = Es ist dringend.

asks = { $agent } fragt: { $action }
still-asks = { $agent } fragt immer noch: { $action }
undo-never = Das lässt sich nicht rückgängig machen.
undo-easy = Das lässt sich rückgängig machen.
undo-effort = Das lässt sich mit Aufwand rückgängig machen.
risk-low = Geringes Risiko.
risk-medium = Mittleres Risiko.
risk-high = Hohes Risiko.
time-to-answer = Zeit für die Antwort: { $time }.
default-reject = Ohne Antwort wird es nicht getan.
default-accept = Ohne Antwort wird es getan.
default-response = Ohne Antwort gilt: { $response }
default-goes-on = Ohne Antwort macht der Agent ohne sie weiter.
answer-yes-no = Antworte mit Ja oder Nein.
say-yes-no = Sage Ja oder Nein.
answer-text = Antworte in eigenen Worten.
say-text = Sage deine Antwort.
answer-number = Antworte mit einer Zahl.
say-number = Sage eine Zahl.
answer-choice = Antworte mit der Nummer deiner Wahl.
say-choice = Sage die Nummer deiner Wahl.
choices =
    { $count ->
        [one] Es gibt 1 Möglichkeit.
       *[other] Es gibt { $count } Möglichkeiten.
    }
choice = { $number }: { $label }
context-entry = { $name }: { $value }
hidden-character = Warnung: Dieser Text hat ein verborgenes Zeichen, { $code }.
direction-character = Warnung: Dieser Text hat ein Zeichen, das seine Reihenfolge ändert, { $code }.
look-alike = Warnung: Das Wort { $word } hat Buchstaben, die nur wie andere aussehen: { $letters }.
letter = Buchstabe { $number } ist { $code }

answer-sent = Deine Antwort wurde gesendet.
answered-elsewhere = Die Frage wurde anderswo beantwortet.
outcome-accepted = Angenommen. Es geht los.
outcome-rejected = Abgelehnt. Es wird nicht getan.
outcome-answered = Beantwortet. Es geht weiter.
outcome-timed-out-done = Keine Antwort kam rechtzeitig. Es wird getan, wie angekündigt.
outcome-timed-out-not-done = Keine Antwort kam rechtzeitig. Es wird nicht getan.
outcome-timed-out-goes-on = Keine Antwort kam rechtzeitig. Der Agent macht ohne sie weiter.
outcome-withdrawn = Die Frage wurde zurückgezogen.

seconds =
    { $count ->
        [one] 1 Sekunde
       *[other] { $count } Sekunden
    }
minutes =
    { $count ->
        [one] 1 Minute
       *[other] { $count } Minuten
    }
hours =
    { $count ->
        [one] 1 Stunde
       *[other] { $count } Stunden
    }

still-tool = Noch bei der Arbeit: { $tool }, { $time }.
still-thinking = Denkt noch nach, { $time }.
still-writing = Schreibt noch, { $time }.
still-working = Arbeitet noch, { $time }.
still-waiting = Deine Antwort wird noch gebraucht. Restzeit: { $time }.
stalled = Kein Lebenszeichen von { $agent } seit { $time }. Vielleicht hängt er fest.

tool-calls =
    { $count ->
        [one] 1 Werkzeugaufruf.
       *[other] { $count } Werkzeugaufrufe.
    }
tool-calls-failed =
    { $count ->
        [one] 1 Werkzeugaufruf, { $failed ->
            [one] einer fehlgeschlagen
           *[other] { $failed } fehlgeschlagen
        }.
       *[other] { $count } Werkzeugaufrufe, { $failed ->
            [one] einer fehlgeschlagen
           *[other] { $failed } fehlgeschlagen
        }.
    }
tool-failed = { $tool } ist fehlgeschlagen: { $reason }
tool-failed-plain = { $tool } ist fehlgeschlagen.
tool-timeout = { $tool } dauerte zu lange und wurde aufgegeben.
percent = { $percent } Prozent.
step = Schritt { $step } von { $total }.
step-alone = Schritt { $step }.

gap = Warnung: Einige Nachrichten gingen verloren.
gap-text = Hier fehlt Text.
flood =
    { $count ->
        [one] 1 Nachricht wurde ausgelassen, weil zu viele auf einmal kamen.
       *[other] { $count } Nachrichten wurden ausgelassen, weil zu viele auf einmal kamen.
    }
connection-lost = Die Verbindung zu { $agent } ist unterbrochen.
connection-back = Die Verbindung zu { $agent } ist wieder da.
key-changed = Warnung: { $agent } zeigt einen anderen Schlüssel als bisher. Es könnte jemand anderes sein. Prüfe das, bevor du antwortest.

nothing-new = Nichts Neues.
nothing-runs = Nichts läuft.
nothing-waits = Nichts wartet auf deine Antwort.
waiting-count =
    { $count ->
        [one] 1 Frage wartet auf deine Antwort.
       *[other] { $count } Fragen warten auf deine Antwort.
    }
waiting-item = { $agent } fragt: { $action } Restzeit: { $time }.
wrote-words =
    { $count ->
        [one] 1 Wort geschrieben.
       *[other] { $count } Wörter geschrieben.
    }
now-tool = Jetzt bei der Arbeit: { $tool }, seit { $time }.
now-thinking = Denkt jetzt nach, seit { $time }.
now-writing = Schreibt jetzt, seit { $time }.
now-working = Arbeitet jetzt, seit { $time }.
now-waiting = Wartet jetzt auf deine Antwort.

code-block =
    { $lines ->
        [one] { $language }-Code, 1 Zeile.
       *[other] { $language }-Code, { $lines } Zeilen.
    }
code-block-plain =
    { $lines ->
        [one] Code, 1 Zeile.
       *[other] Code, { $lines } Zeilen.
    }
diff =
    { $added ->
        [one] Änderungen: 1 Zeile hinzugefügt, { $removed } entfernt.
       *[other] Änderungen: { $added } Zeilen hinzugefügt, { $removed } entfernt.
    }
diff-file =
    { $added ->
        [one] Änderungen in { $file }: 1 Zeile hinzugefügt, { $removed } entfernt.
       *[other] Änderungen in { $file }: { $added } Zeilen hinzugefügt, { $removed } entfernt.
    }
table =
    { $rows ->
        [one] Tabelle, { $columns } Spalten, 1 Zeile.
       *[other] Tabelle, { $columns } Spalten, { $rows } Zeilen.
    }
table-more =
    { $count ->
        [one] 1 weitere Zeile.
       *[other] { $count } weitere Zeilen.
    }
link = Link zu { $host }
link-text = { $text }, Link zu { $host }
image = Bild: { $text }
image-plain = Bild
file-in = { $file } in { $folder }
long-number = Zahl mit { $count } Stellen, die auf { $ending } endet
long-code = Code mit { $count } Zeichen, der mit { $start } beginnt
text-cut = Der Text geht weiter.

glyph-check = Häkchen
glyph-cross = Kreuz
glyph-warning = Warnung
glyph-task-done = erledigt
glyph-task-open = offen
glyph-arrow = zu

symbol-dot = Punkt
symbol-period = Punkt
symbol-comma = Komma
symbol-colon = Doppelpunkt
symbol-semicolon = Semikolon
symbol-question = Fragezeichen
symbol-exclamation = Ausrufezeichen
symbol-slash = Schrägstrich
symbol-backslash = umgekehrter Schrägstrich
symbol-underscore = Unterstrich
symbol-dash = Strich
symbol-at = at
symbol-hash = Raute
symbol-percent = Prozent
symbol-ampersand = Und-Zeichen
symbol-star = Stern
symbol-plus = plus
symbol-equals = gleich
symbol-less = kleiner als
symbol-greater = größer als
symbol-pipe = senkrechter Strich
symbol-tilde = Tilde
symbol-caret = Zirkumflex
symbol-dollar = Dollar
symbol-quote = Anführungszeichen
symbol-apostrophe = Apostroph
symbol-backtick = Gravis
symbol-left-parenthesis = Klammer auf
symbol-right-parenthesis = Klammer zu
symbol-left-bracket = eckige Klammer auf
symbol-right-bracket = eckige Klammer zu
symbol-left-brace = geschweifte Klammer auf
symbol-right-brace = geschweifte Klammer zu
