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
time-left = Restzeit für die Antwort: { $time }.
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

answer-sent = Gesendet: { $words }
word-yes = ja
word-no = nein
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
connection-ended = { $agent } hat die Verbindung beendet. Wenn sie wieder besteht, wird es gemeldet.
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

ui-help = Tippe help, um zu hören, was du tippen kannst.
ui-listening = Du hörst { $agent } unter { $address }.
ui-takes-no-answers = { $agent } nimmt von hier keine Antworten an.
ui-not-connected = Noch nicht mit { $agent } verbunden. { $why } Es wird wieder versucht.
ui-does-not-serve = { $agent } bedient nicht: { $why }
ui-needs-token = Gib ein gültiges Token an: aaep listen --token DATEI, oder setze AAEP_TOKEN.
ui-cannot-listen = { $agent } kann nicht gehört werden: { $why }
ui-not-demanded = { $agent } ist nicht, was verlangt war: { $why }
ui-number = Frage { $number }. { $text }
ui-cannot-answer = Frage { $number } kann von hier nicht beantwortet werden.
ui-not-sent-cannot = Nichts wurde gesendet. Frage { $number } kann von hier nicht beantwortet werden.
ui-replaced = Frage { $number } ist vorbei, weil eine andere an ihre Stelle trat.
ui-over = Frage { $number } ist vorbei: { $how }.
ui-not-sent-over = Nichts wurde gesendet. Frage { $number } ist vorbei: { $how }.
over-unanswerable = sie war von hier nicht zu beantworten
over-answered = du hast sie beantwortet
over-elsewhere = sie wurde anderswo erledigt
over-expired = ihre Zeit war um
over-replaced = eine andere Frage trat an ihre Stelle
over-session = ihre Sitzung ist beendet
over-connection = die Verbindung ging verloren
over-withdrawn = sie wurde zurückgezogen
over-on-its-way = deine Antwort ist unterwegs
over-long-ago = das ist lange her
ui-not-sent-to = Nichts wurde zu Frage { $number } gesendet. { $why }
refused-gone = Die Frage ist nicht mehr offen.
refused-away = Der Agent ist zurzeit nicht erreichbar.
refused-not-granted = Der Agent nimmt von hier keine Antworten an.
refused-not-allowed = Die Frage nimmt diese Antwort nicht an.
refused-kind = Die Frage verlangt eine andere Art von Antwort.
refused-over = Das Abonnement ist beendet.
takes-yes-no = Diese Frage nimmt Ja oder Nein.
takes-choice = Diese Frage nimmt die Nummer einer Auswahl, 1 bis { $last }.
takes-number = Diese Frage nimmt eine Zahl.
takes-no-such-number = Das ist keine Zahl.
takes-words = Diese Frage nimmt Worte.
takes-nothing = Das ist keine Frage.
ui-nothing-waits = Nichts wartet auf eine Antwort. Nichts wurde gesendet.
ui-no-question = Es gibt keine Frage { $number }.
ui-not-sent-no-question = Nichts wurde gesendet. Es gibt keine Frage { $number }.
ui-no-such-question = Eine solche Frage gibt es nicht.
ui-too-new = Nichts wurde gesendet, weil diese Frage gerade kam, als du geantwortet hast. Hier ist sie noch einmal.
ui-put-first = Nichts wurde gesendet. Eine andere Frage wartet. Hier ist sie.
ui-which = Nichts wurde gesendet, weil mehr als eine Frage wartet. Sage, welche, zum Beispiel: yes 1.
ui-whole-word = Frage { $number } braucht das ganze Wort. Tippe yes, um zuzustimmen. Nichts wurde gesendet.
ui-takes-words = Nichts wurde gesendet. Frage { $number } nimmt Worte. Um das Wort { $word } zu senden, tippe: to { $number } { $word }
ui-not-understood = Nicht verstanden, und nichts wurde gesendet. { $hint } Tippe help, um zu hören, was du tippen kannst.
ui-hint-nothing = Nichts wartet auf eine Antwort.
ui-nothing-said = Bisher wurde nichts gesagt.
ui-waiting = Frage { $number }: { $text } Verbleibende Zeit: { $time }.
ui-first = Das war die erste.
ui-last = Das war die letzte.
ui-hear-normal-again = Du hörst wieder alles Übliche.
ui-hear-normal = Du hörst jetzt die üblichen Worte.
ui-hear-details = Du hörst jetzt alle Einzelheiten.
ui-hear-little = Du hörst jetzt nur Fragen, Fehler und Ergebnisse.
ui-hear-short = Du hörst jetzt kurze Worte.
ui-more-time = Ab der nächsten Frage bittest du um das { $factor }-Fache der Zeit.
ui-keeps-time = Frage { $number } behält ihre Zeit. Verbleibend: { $time }.
ui-no-work = Kein Agent arbeitet.
ui-no-such-work = Kein arbeitender Agent hat die Nummer oder den Namen { $name }.
ui-cancel-which = Niemand wurde gebeten aufzuhören. Tippe cancel und eine Nummer:
ui-work = Nummer { $number }: { $agent }.
ui-cancel-asked = { $agent } wurde gebeten aufzuhören. Was geschieht, entscheidet der Agent selbst.
ui-cancel-not-offered = { $agent } kann von hier aus nicht gebeten werden aufzuhören.
ui-cancel-not-connected = { $agent } wurde nicht gebeten aufzuhören, weil gerade keine Verbindung besteht.
ui-name-agent = Nenne einen Agenten: { $names }.
ui-muted = Du hörst von { $agent } jetzt nur Fragen und Fehler. Tippe unmute { $agent }, um alles zu hören.
ui-unmuted = Du hörst { $agent } wieder.
ui-not-muted = { $agent } ist nicht stumm.
ui-no-agent = Es gibt keinen Agenten { $name }. { $hint }
ui-agents = Agenten hier: { $names }.
ui-no-agents = Noch ist kein Agent bekannt.
ui-close = Eine Frage wartet. Tippe close, um trotzdem zu gehen.
ui-other-window = Frage { $number } wurde aus einem anderen Fenster beantwortet: { $words }.
ui-on-its-way = Die Antwort auf Frage { $number } ist unterwegs.
ui-on-its-way-already = Die Antwort auf Frage { $number } ist schon unterwegs.
ui-name-number = Mehr als eine Frage wartet; nenne ihre Nummer.
ui-just-came = Frage { $number } kam gerade erst; nenne ihre Nummer.
ui-needs-care = Frage { $number } betrifft etwas, das Sorgfalt braucht; nenne ihre Nummer.
ui-command-failed = Dein Befehl hat Frage { $number } nicht beantwortet: { $why }. Sie wartet weiter auf dich.
ui-command-silent = Dein Befehl gab keine Antwort auf Frage { $number }. Sie wartet weiter auf dich.
ui-command-answered = Dein Befehl hat Frage { $number } beantwortet: { $words }.
ui-command-not-sent = Die Antwort deines Befehls wurde nicht gesendet. { $why } Die Frage wartet weiter auf dich.
ui-no-sound = Kein Ton: { $why }.
ui-voice-on-already = Die Stimme ist schon an.
ui-voice-on = Die Stimme ist an.
ui-no-voice = Es gibt keine Stimme: { $why }.
ui-voice-off = Die Stimme ist aus.
ui-voice-off-already = Die Stimme ist schon aus.
ui-stopped = Die Stimme schweigt. Die Agenten arbeiten weiter.
ui-nothing-spoken = Es wird gerade nichts gesprochen. Die Agenten arbeiten weiter.
ui-shortened = Lange Codes sind gekürzt. Tippe details all für jedes Zeichen.
ui-voice-gone = Die Stimme ist weg: { $why }.
ui-voice-back = Die Stimme ist zurück.
ui-no-braille = Es gibt keine Braillezeile: { $why }.
ui-braille-lost = Die Braillezeile ist weg.

## Phrases of the web page

page-title = Deinen Agenten folgen
page-connecting = Verbindung wird hergestellt.
page-connected = Verbunden mit { $agent }.
page-refused = Nicht verbunden. { $why }
page-closed = Die Verbindung ist beendet.
page-sign-in = Anmelden
page-token = Token
page-token-hint = Dieser Server braucht ein Token. Es bleibt in dieser Seite und ist weg, wenn du sie schließt.
page-questions = Fragen
page-answer-question = Frage { $number } beantworten
page-asks = { $agent } fragt
page-yes = Ja, tu es
page-no = Nein, tu es nicht
page-sure = Bist du sicher?
page-back = Zurück
page-yes-for-good = Ja, endgültig
page-repeat = Wiederholen
page-time-left = Verbleibende Zeit
page-more-time = Mehr Zeit
page-later = Später
page-later-said = Nichts wurde gesendet. Die Frage wartet noch, in der Liste der Fragen.
page-send = Senden
page-your-answer = Deine Antwort
page-your-number = Deine Zahl
page-choose = Wähle aus
page-nothing-chosen = Wähle zuerst eine Antwort.
page-nothing-typed = Gib zuerst eine Antwort ein.
page-option-yes = Ja
page-option-no = Nein
page-not-sent = Nichts wurde gesendet. { $why }
page-another-question =
    { $count ->
        [one] Noch eine Frage wartet.
       *[other] Noch eine Frage wartet. Jetzt sind es { $count }.
    }
page-over-session = Die Frage ist vorbei, weil ihre Sitzung zu Ende ist.
page-over-connection = Die Frage ist vorbei, weil die Verbindung verloren ging.
page-views = Ansichten
page-transcript = Protokoll
page-tab-captions = Untertitel
page-tab-inspector = Inspektor
page-tab-operator = Betrieb
page-tab-settings = Einstellungen
page-tab-demo = Vorführung
page-scenes = Szenen
page-scenes-hint = Starte eine Szene und höre, was ein Agent tut und fragt.
page-start-scene = { $name } starten
page-scene-starts = { $name } beginnt.
page-show = Anzeigen
page-kind-all = Alles
page-kind-questions = Fragen
page-kind-text = Text
page-kind-tools = Werkzeuge
page-kind-results = Ergebnisse und Fehler
page-kind-states = Zustände und Fortschritt
page-search = Suchen
page-found =
    { $count ->
        [one] 1 Eintrag gefunden.
       *[other] { $count } Einträge gefunden.
    }
page-next-unread = Nächstes Ungelesene
page-no-unread = Nichts ist ungelesen.
page-export = Als Text exportieren
page-earlier = Frühere anzeigen
page-newer = Spätere anzeigen
page-newest = Neueste anzeigen
page-empty = Es ist noch nichts geschehen.
page-removed =
    { $count ->
        [one] 1 früherer Eintrag wurde entfernt, um Speicher zu sparen.
       *[other] { $count } frühere Einträge wurden entfernt, um Speicher zu sparen.
    }
page-keys = Im Protokoll gehen die Pfeiltasten von Eintrag zu Eintrag, Bild auf und Bild ab von Sitzung zu Sitzung, K zum nächsten Eintrag gleicher Art, U zum nächsten ungelesenen.
page-stop = { $agent } bitten aufzuhören
page-name-session = Sitzung
page-name-state = Zustand
page-name-tool = Werkzeug
page-name-progress = Fortschritt
page-name-text = Text
page-name-question = Frage
page-name-handoff = Übergabe
page-name-result = Ergebnis
page-name-failure = Fehler
page-name-other = Ereignis
page-caption-size = Textgröße
page-captions-empty = Hier erscheinen Untertitel.
page-terms = Bedingungen
page-term = Bedingung
page-requested = Gewünscht
page-honored = Gewährt
page-change-terms = Bedingungen ändern
page-terms-changed = Die Bedingungen haben sich geändert.
page-events = Ereignisse
page-received =
    { $count ->
        [one] 1 Ereignis empfangen.
       *[other] { $count } Ereignisse empfangen.
    }
page-capture = Als Datei speichern
page-clear = Leeren
page-no-findings = Entspricht dem Schema.
page-findings =
    { $count ->
        [one] 1 Befund.
       *[other] { $count } Befunde.
    }
page-latency = { $millis } Millisekunden nach dem Absenden empfangen.
page-subscriptions = Abonnements
page-subscription = Abonnement
page-user = Nutzer
page-delivered = Zugestellt
page-held = Zurückgehalten
page-coalesced = Zusammengefasst
page-queued = In der Warteschlange
page-none = Keine.
page-open-questions = Offene Fragen
page-asked = Gefragt
page-decisions = Letzte Entscheidungen
page-decided = Entschieden
page-resolution = Ausgang
page-plot = Ereignisse pro Sekunde in den letzten zwei Minuten
page-time = Zeit
page-rate = Ereignisse pro Sekunde
page-forbidden = Dein Token erlaubt diese Ansicht nicht. Sie braucht die Rolle admin.
page-no-numbers = Die Zahlen sind im Moment nicht lesbar.
page-verbosity = Ausführlichkeit
page-terse = Kurz
page-normal = Normal
page-detailed = Alle Einzelheiten
page-load = Wie viel auf einmal
page-load-hint = Bei wenig hörst du nur Fragen, Fehler und Ergebnisse.
page-low = Wenig
page-medium = Mittel
page-high = Viel
page-pace = Wörter pro Minute
page-languages = Sprachen
page-languages-hint = Die beste zuerst, zum Beispiel: de, en. Die Seite selbst ändert sich beim nächsten Laden.
page-time-to-answer = Zeit zum Antworten
page-time-factor =
    { $factor ->
        [1] Wie der Agent es vorgibt
       *[other] { $factor } mal so lang
    }
page-time-hint = Es gilt ab der nächsten Frage.
page-announcing = Ansagen für den Bildschirmleser
page-announcing-hint = Wenn du nichts hörst, wähle Live-Regionen.
page-automatic = Automatisch
page-live-region = Live-Regionen
page-off = Aus
page-announced = Was angesagt wird
page-voice = Mit der Stimme des Browsers sprechen, für alle ohne Bildschirmleser
page-sounds = Töne
