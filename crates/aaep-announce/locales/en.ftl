# The fixed phrases of announcements. Plain, short words; whole sentences, so that they can stand one after another.
# Messages that begin with symbol-, glyph- and word- are words inside a sentence.

## Who speaks

agent-unknown = The agent
agent-says = { $agent }: { $text }

## Endings

done = Done.
failed = Failed: { $text }
failed-remedy = What you can do: { $hint }
failed-retry = Trying again may help.
failed-no-retry = Trying again will not help.
failed-needs-you = It needs you to do something first.
cancelled-user = Cancelled by you.
cancelled-producer = Cancelled by the agent.
cancelled-timeout = Cancelled, because time ran out.
cancelled-system = Cancelled by the system.
cancelled-other = Cancelled.
partial-result = Before that: { $text }

## Handing over

handoff-human = { $agent } hands over to a person: { $reason }
handoff-specialist = { $agent } hands over to a specialist agent: { $reason }
handoff-queue = { $agent } hands over to a queue: { $reason }
handoff-other = { $agent } hands over: { $reason }
handoff-urgent = It is urgent.

## Questions

asks = { $agent } asks: { $action }
still-asks = { $agent } still asks: { $action }
undo-never = This cannot be undone.
undo-easy = This can be undone.
undo-effort = This can be undone with effort.
risk-low = Low risk.
risk-medium = Medium risk.
risk-high = High risk.
time-to-answer = You have { $time } to answer.
time-left = You have { $time } left to answer.
default-reject = Without an answer it will not be done.
default-accept = Without an answer it will be done.
default-response = Without an answer this is assumed: { $response }
default-goes-on = Without an answer the agent goes on without it.
answer-yes-no = Answer yes or no.
say-yes-no = Say yes or no.
answer-text = Answer in your own words.
say-text = Say your answer.
answer-number = Answer with a number.
say-number = Say a number.
answer-choice = Answer with the number of your choice.
say-choice = Say the number of your choice.
choices =
    { $count ->
        [one] There is 1 choice.
       *[other] There are { $count } choices.
    }
choice = { $number }: { $label }
context-entry = { $name }: { $value }
hidden-character = Warning: this text has a hidden character, { $code }.
direction-character = Warning: this text has a character that changes its order, { $code }.
look-alike = Warning: the word { $word } has letters that only look like others: { $letters }.
letter = letter { $number } is { $code }

## How questions end

answer-sent = Sent: { $words }
word-yes = yes
word-no = no
answered-elsewhere = The question was answered elsewhere.
outcome-accepted = Accepted. Going ahead.
outcome-rejected = Rejected. It will not be done.
outcome-answered = Answered. Going on.
outcome-timed-out-done = No answer came in time. It goes ahead, as announced.
outcome-timed-out-not-done = No answer came in time. It will not be done.
outcome-timed-out-goes-on = No answer came in time. The agent goes on without it.
outcome-withdrawn = The question was withdrawn.

## Lengths of time

seconds =
    { $count ->
        [one] 1 second
       *[other] { $count } seconds
    }
minutes =
    { $count ->
        [one] 1 minute
       *[other] { $count } minutes
    }
hours =
    { $count ->
        [one] 1 hour
       *[other] { $count } hours
    }

## Signs of life

still-tool = Still working on { $tool }, { $time }.
still-thinking = Still thinking, { $time }.
still-writing = Still writing, { $time }.
still-working = Still working, { $time }.
still-waiting = Your answer is still needed. { $time } left.
stalled = No sign of life from { $agent } for { $time }. It may be stuck.

## Tools and progress

tool-calls =
    { $count ->
        [one] 1 tool call.
       *[other] { $count } tool calls.
    }
tool-calls-failed =
    { $count ->
        [one] 1 tool call, { $failed ->
            [one] one failed
           *[other] { $failed } failed
        }.
       *[other] { $count } tool calls, { $failed ->
            [one] one failed
           *[other] { $failed } failed
        }.
    }
tool-failed = { $tool } failed: { $reason }
tool-failed-plain = { $tool } failed.
tool-timeout = { $tool } took too long and was given up.
percent = { $percent } percent.
step = Step { $step } of { $total }.
step-alone = Step { $step }.

## Remarks

gap = Warning: some messages were lost.
gap-text = Some text is missing here.
flood =
    { $count ->
        [one] 1 message was left out, because too many came at once.
       *[other] { $count } messages were left out, because too many came at once.
    }
connection-lost = The connection to { $agent } is lost.
connection-ended = { $agent } has ended the connection. You will be told when it is back.
connection-back = The connection to { $agent } is back.
key-changed = Warning: { $agent } shows a different key than before. It may be someone else. Check before you answer.

## Where things stand

nothing-new = Nothing new.
nothing-runs = Nothing is running.
nothing-waits = Nothing waits for your answer.
waiting-count =
    { $count ->
        [one] 1 question waits for your answer.
       *[other] { $count } questions wait for your answer.
    }
waiting-item = { $agent } asks: { $action } { $time } left.
wrote-words =
    { $count ->
        [one] It wrote 1 word.
       *[other] It wrote { $count } words.
    }
now-tool = Now working on { $tool }, for { $time }.
now-thinking = Now thinking, for { $time }.
now-writing = Now writing, for { $time }.
now-working = Now working, for { $time }.
now-waiting = Now waiting for your answer.

## Text made listenable

code-block =
    { $lines ->
        [one] { $language } code, 1 line.
       *[other] { $language } code, { $lines } lines.
    }
code-block-plain =
    { $lines ->
        [one] Code, 1 line.
       *[other] Code, { $lines } lines.
    }
diff =
    { $added ->
        [one] Changes: 1 line added, { $removed } removed.
       *[other] Changes: { $added } lines added, { $removed } removed.
    }
diff-file =
    { $added ->
        [one] Changes in { $file }: 1 line added, { $removed } removed.
       *[other] Changes in { $file }: { $added } lines added, { $removed } removed.
    }
table =
    { $rows ->
        [one] Table, { $columns } columns, 1 row.
       *[other] Table, { $columns } columns, { $rows } rows.
    }
table-more =
    { $count ->
        [one] 1 more row.
       *[other] { $count } more rows.
    }
link = link to { $host }
link-text = { $text }, link to { $host }
image = image: { $text }
image-plain = image
file-in = { $file } in { $folder }
long-number = number of { $count } digits that ends in { $ending }
long-code = code of { $count } characters that begins with { $start }
text-cut = The text goes on.

glyph-check = check
glyph-cross = cross
glyph-warning = warning
glyph-task-done = done
glyph-task-open = open
glyph-arrow = to

symbol-dot = dot
symbol-period = period
symbol-comma = comma
symbol-colon = colon
symbol-semicolon = semicolon
symbol-question = question mark
symbol-exclamation = exclamation mark
symbol-slash = slash
symbol-backslash = backslash
symbol-underscore = underscore
symbol-dash = dash
symbol-at = at
symbol-hash = hash
symbol-percent = percent
symbol-ampersand = and sign
symbol-star = star
symbol-plus = plus
symbol-equals = equals
symbol-less = less than
symbol-greater = greater than
symbol-pipe = pipe
symbol-tilde = tilde
symbol-caret = caret
symbol-dollar = dollar
symbol-quote = quote
symbol-apostrophe = apostrophe
symbol-backtick = backtick
symbol-left-parenthesis = left parenthesis
symbol-right-parenthesis = right parenthesis
symbol-left-bracket = left bracket
symbol-right-bracket = right bracket
symbol-left-brace = left brace
symbol-right-brace = right brace

## Phrases of the listening program itself. Words to type, such as yes and help, stay as they are typed.

ui-help = Type help for what you can type.
ui-listening = Listening to { $agent } at { $address }.
ui-takes-no-answers = { $agent } takes no answers from here.
ui-not-connected = Not connected to { $agent } yet. { $why } Trying again.
ui-does-not-serve = { $agent } does not serve: { $why }
ui-needs-token = Pass a valid token: aaep listen --token FILE, or set AAEP_TOKEN.
ui-cannot-listen = { $agent } cannot be listened to: { $why }
ui-not-demanded = { $agent } is not what was demanded: { $why }
ui-number = Question { $number }. { $text }
ui-cannot-answer = Question { $number } cannot be answered from here.
ui-not-sent-cannot = Nothing was sent. Question { $number } cannot be answered from here.
ui-replaced = Question { $number } is over, because another question took its place.
ui-over = Question { $number } is over: { $how }.
ui-not-sent-over = Nothing was sent. Question { $number } is over: { $how }.
over-unanswerable = it could not be answered from here
over-answered = you answered it
over-elsewhere = it was settled elsewhere
over-expired = its time ran out
over-replaced = another question took its place
over-session = its session ended
over-connection = the connection was lost
over-withdrawn = it was withdrawn
over-on-its-way = your answer is on its way
over-long-ago = that was long ago
ui-not-sent-to = Nothing was sent to question { $number }. { $why }
refused-gone = The question is not open any more.
refused-away = The agent cannot be reached at the moment.
refused-not-granted = The agent does not take answers from here.
refused-not-allowed = The question does not take this answer.
refused-kind = The question asks for another kind of answer.
refused-over = The subscription is over.
takes-yes-no = This question takes yes or no.
takes-choice = This question takes the number of a choice, 1 to { $last }.
takes-number = This question takes a number.
takes-no-such-number = This is no number.
takes-words = This question takes words.
takes-nothing = This is no question.
ui-nothing-waits = Nothing waits for an answer. Nothing was sent.
ui-no-question = There is no question { $number }.
ui-not-sent-no-question = Nothing was sent. There is no question { $number }.
ui-no-such-question = There is no such question.
ui-too-new = Nothing was sent, because this question came just as you answered. Here it is again.
ui-put-first = Nothing was sent. Another question waits. Here it is.
ui-which = Nothing was sent, because more than one question waits. Say which, such as: yes 1.
ui-whole-word = Question { $number } needs the whole word. Type yes to accept. Nothing was sent.
ui-takes-words = Nothing was sent. Question { $number } takes words. To send the word { $word }, type: to { $number } { $word }
ui-not-understood = Not understood, and nothing was sent. { $hint } Type help for what you can type.
ui-hint-nothing = Nothing waits for an answer.
ui-nothing-said = Nothing was said yet.
ui-waiting = Question { $number }: { $text } { $time } left.
ui-first = That was the first.
ui-last = That was the last.
ui-hear-normal-again = You hear all that is normal again.
ui-hear-normal = You hear the normal words now.
ui-hear-details = You hear all details now.
ui-hear-little = You hear only questions, failures and results now.
ui-hear-short = You hear short words now.
ui-more-time = From the next question on, you ask for { $factor } times the time.
ui-keeps-time = Question { $number } keeps its time, { $time } left.
ui-no-work = No agent is at work.
ui-no-such-work = No agent at work has the number or the name { $name }.
ui-cancel-which = Nobody was asked to stop. Type cancel and a number:
ui-work = Number { $number }: { $agent }.
ui-cancel-asked = { $agent } was asked to stop. It decides itself what it does.
ui-cancel-not-offered = { $agent } cannot be asked to stop from here.
ui-cancel-not-connected = { $agent } was not asked to stop, because it cannot be reached now.
ui-name-agent = Name an agent: { $names }.
ui-muted = You hear only questions and failures of { $agent } now. Type unmute { $agent } to hear all.
ui-unmuted = You hear { $agent } again.
ui-not-muted = { $agent } is not muted.
ui-no-agent = There is no agent { $name }. { $hint }
ui-agents = Agents here: { $names }.
ui-no-agents = No agent is known yet.
ui-close = A question waits. Type close to leave all the same.
ui-other-window = Question { $number } was answered from another window: { $words }.
ui-on-its-way = The answer to question { $number } is on its way.
ui-on-its-way-already = The answer to question { $number } is on its way already.
ui-name-number = More than one question waits; name its number.
ui-just-came = Question { $number } came only just; name its number.
ui-needs-care = Question { $number } is about something that needs care; name its number.
ui-command-failed = Your command did not answer question { $number }: { $why }. It still waits for you.
ui-command-silent = Your command gave no answer to question { $number }. It still waits for you.
ui-command-answered = Your command answered question { $number }: { $words }.
ui-command-not-sent = The answer of your command was not sent. { $why } It still waits for you.
ui-no-sound = No sound: { $why }.
ui-voice-on-already = The voice is on already.
ui-voice-on = The voice is on.
ui-no-voice = There is no voice: { $why }.
ui-voice-off = The voice is off.
ui-voice-off-already = The voice is off already.
ui-stopped = Speech is stopped. The agents go on.
ui-nothing-spoken = Nothing is being spoken. The agents go on.
ui-shortened = Long codes are shortened. Type details all for every character.
ui-voice-gone = The voice is gone: { $why }.
ui-voice-back = The voice is back.
ui-no-braille = There is no braille display: { $why }.
ui-braille-lost = The braille display is gone.

## Phrases of the web page

page-title = Follow your agents
page-connecting = Connecting.
page-connected = Connected to { $agent }.
page-refused = Not connected. { $why }
page-closed = The connection is closed.
page-sign-in = Sign in
page-token = Token
page-token-hint = This server needs a token. It stays in this page and is gone when you close it.
page-questions = Questions
page-answer-question = Answer question { $number }
page-asks = { $agent } asks
page-yes = Yes, do it
page-no = No, do not do it
page-sure = Are you sure?
page-back = Go back
page-yes-for-good = Yes, for good
page-repeat = Repeat
page-time-left = Time left
page-more-time = More time
page-later = Later
page-later-said = Nothing was sent. The question still waits, in the list of questions.
page-send = Send
page-your-answer = Your answer
page-your-number = Your number
page-choose = Choose one
page-nothing-chosen = Choose an answer first.
page-nothing-typed = Type an answer first.
page-option-yes = Yes
page-option-no = No
page-not-sent = Nothing was sent. { $why }
page-another-question =
    { $count ->
        [one] Another question waits.
       *[other] Another question waits. There are { $count } now.
    }
page-over-session = The question is over, because its session ended.
page-over-connection = The question is over, because the connection was lost.
page-views = Views
page-transcript = Transcript
page-tab-captions = Captions
page-tab-inspector = Inspector
page-tab-operator = Operator
page-tab-settings = Settings
page-tab-demo = Demo
page-scenes = Scenes
page-scenes-hint = Start a scene, and hear what an agent does and asks.
page-start-scene = Start { $name }
page-scene-starts = { $name } starts.
page-show = Show
page-kind-all = Everything
page-kind-questions = Questions
page-kind-text = Text
page-kind-tools = Tools
page-kind-results = Results and failures
page-kind-states = States and progress
page-search = Search
page-found =
    { $count ->
        [one] 1 entry found.
       *[other] { $count } entries found.
    }
page-next-unread = Next unread
page-no-unread = Nothing is unread.
page-export = Export as text
page-earlier = Show earlier
page-newer = Show later
page-newest = Show newest
page-empty = Nothing has happened yet.
page-removed =
    { $count ->
        [one] 1 earlier entry was removed, to save memory.
       *[other] { $count } earlier entries were removed, to save memory.
    }
page-keys = In the transcript, the arrow keys go from entry to entry, Page Up and Page Down from session to session, K to the next entry of the same kind, U to the next unread one.
page-stop = Ask { $agent } to stop
page-name-session = Session
page-name-state = State
page-name-tool = Tool
page-name-progress = Progress
page-name-text = Text
page-name-question = Question
page-name-handoff = Handover
page-name-result = Result
page-name-failure = Failure
page-name-other = Event
page-caption-size = Text size
page-captions-empty = Captions appear here.
page-terms = Terms
page-term = Term
page-requested = Requested
page-honored = Honored
page-change-terms = Change the terms
page-terms-changed = The terms have changed.
page-events = Events
page-received =
    { $count ->
        [one] 1 event received.
       *[other] { $count } events received.
    }
page-capture = Save as a file
page-clear = Clear
page-no-findings = It fits the schema.
page-findings =
    { $count ->
        [one] 1 finding.
       *[other] { $count } findings.
    }
page-latency = Received { $millis } milliseconds after it was emitted.
page-subscriptions = Subscriptions
page-subscription = Subscription
page-user = User
page-delivered = Delivered
page-held = Held back
page-coalesced = Joined
page-queued = Queued
page-none = None.
page-open-questions = Open questions
page-asked = Asked
page-decisions = Recent decisions
page-decided = Decided
page-resolution = Resolution
page-plot = Events per second over the last two minutes
page-time = Time
page-rate = Events per second
page-forbidden = Your token does not permit this view. It needs the role admin.
page-no-numbers = The numbers cannot be read at the moment.
page-verbosity = Words
page-terse = Short
page-normal = Normal
page-detailed = All details
page-load = How much at once
page-load-hint = With little, you hear only questions, failures and results.
page-low = Little
page-medium = Medium
page-high = Much
page-pace = Words per minute
page-languages = Languages
page-languages-hint = The best first, such as: de, en. The page itself changes when you load it again.
page-time-to-answer = Time to answer
page-time-factor =
    { $factor ->
        [1] As the agent asks
       *[other] { $factor } times as long
    }
page-time-hint = It counts from the next question on.
page-announcing = Announcements to the screen reader
page-announcing-hint = If you hear nothing, choose live regions.
page-automatic = Automatic
page-live-region = Live regions
page-off = Off
page-announced = What is announced
page-voice = Speak with the voice of the browser, for those without a screen reader
page-sounds = Sounds
