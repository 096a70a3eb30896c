# The fixed phrases of announcements. Plain, short words; whole sentences, so that they can stand one after another.
# Messages that begin with symbol- and glyph- are words inside a sentence.

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

answer-sent = Your answer was sent.
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
