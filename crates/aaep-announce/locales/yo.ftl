# Yoruba. Waits for review by a native speaker.
# Nouns do not change with the number, so no message has forms for one and many.

agent-unknown = Aṣojú náà
agent-says = { $agent }: { $text }

done = Ó ti parí.
failed = Ó kùnà: { $text }
failed-remedy = Ohun tí o lè ṣe: { $hint }
failed-retry = Títún un gbìyànjú lè ṣèrànwọ́.
failed-no-retry = Títún un gbìyànjú kò ní ṣèrànwọ́.
failed-needs-you = O ní láti kọ́kọ́ ṣe nǹkan kan.
cancelled-user = Ìwọ ni o fagi lé e.
cancelled-producer = Aṣojú náà fagi lé e.
cancelled-timeout = A fagi lé e, nítorí àkókò ti tán.
cancelled-system = Ẹ̀rọ náà fagi lé e.
cancelled-other = A fagi lé e.
partial-result = Ṣáájú ìyẹn: { $text }

handoff-human = { $agent } ń fà á lé ènìyàn lọ́wọ́: { $reason }
handoff-specialist = { $agent } ń fà á lé aṣojú amọ̀ja lọ́wọ́: { $reason }
handoff-queue = { $agent } ń fi í sí orí ìlà: { $reason }
handoff-other = { $agent } ń fà á lé ẹlòmíràn lọ́wọ́: { $reason }
handoff-urgent = Ó jẹ́ kánjúkánjú.

asks = { $agent } béèrè pé: { $action }
still-asks = { $agent } ṣì ń béèrè pé: { $action }
undo-never = A kò lè yí èyí padà.
undo-easy = A lè yí èyí padà.
undo-effort = A lè yí èyí padà pẹ̀lú ìsapá.
risk-low = Ewu rẹ̀ kéré.
risk-medium = Ewu rẹ̀ mọ níwọ̀n.
risk-high = Ewu rẹ̀ pọ̀.
time-to-answer = O ní { $time } láti dáhùn.
default-reject = Láìsí ìdáhùn, a kò ní ṣe é.
default-accept = Láìsí ìdáhùn, a máa ṣe é.
default-response = Láìsí ìdáhùn, èyí ni a máa gbà: { $response }
default-goes-on = Láìsí ìdáhùn, aṣojú náà máa tẹ̀síwájú láìsí i.
answer-yes-no = Dáhùn bẹ́ẹ̀ni tàbí bẹ́ẹ̀kọ́.
say-yes-no = Sọ bẹ́ẹ̀ni tàbí bẹ́ẹ̀kọ́.
answer-text = Dáhùn ní ọ̀rọ̀ tìrẹ.
say-text = Sọ ìdáhùn rẹ.
answer-number = Fi nọ́ńbà dáhùn.
say-number = Sọ nọ́ńbà kan.
answer-choice = Fi nọ́ńbà àṣàyàn rẹ dáhùn.
say-choice = Sọ nọ́ńbà àṣàyàn rẹ.
choices = Iye àṣàyàn: { $count }.
choice = { $number }: { $label }
context-entry = { $name }: { $value }
hidden-character = Ìkìlọ̀: ọ̀rọ̀ yìí ní àmì tó fara pamọ́, { $code }.
direction-character = Ìkìlọ̀: ọ̀rọ̀ yìí ní àmì tó ń yí ètò rẹ̀ padà, { $code }.
look-alike = Ìkìlọ̀: ọ̀rọ̀ náà { $word } ní àwọn lẹ́tà tó kàn jọ òmíràn: { $letters }.
letter = lẹ́tà { $number } ni { $code }

answer-sent = A ti fi ìdáhùn rẹ ránṣẹ́.
answered-elsewhere = A ti dáhùn ìbéèrè náà níbòmíràn.
outcome-accepted = A gbà á. Ó ń tẹ̀síwájú.
outcome-rejected = A kọ̀ ọ́. A kò ní ṣe é.
outcome-answered = A ti dáhùn. Ó ń tẹ̀síwájú.
outcome-timed-out-done = Ìdáhùn kò dé lásìkò. A máa ṣe é, bí a ti sọ.
outcome-timed-out-not-done = Ìdáhùn kò dé lásìkò. A kò ní ṣe é.
outcome-timed-out-goes-on = Ìdáhùn kò dé lásìkò. Aṣojú náà ń tẹ̀síwájú láìsí i.
outcome-withdrawn = A ti yọ ìbéèrè náà kúrò.

seconds = ìṣẹ́jú àáyá { $count }
minutes = ìṣẹ́jú { $count }
hours = wákàtí { $count }

still-tool = Ó ṣì ń ṣiṣẹ́ lórí { $tool }, { $time }.
still-thinking = Ó ṣì ń ronú, { $time }.
still-writing = Ó ṣì ń kọ̀wé, { $time }.
still-working = Ó ṣì ń ṣiṣẹ́, { $time }.
still-waiting = A ṣì nílò ìdáhùn rẹ. Àkókò tó kù: { $time }.
stalled = Kò sí àmì kankan láti ọ̀dọ̀ { $agent } fún { $time }. Ó lè ti dúró.

tool-calls = Ìlò irinṣẹ́: { $count }.
tool-calls-failed = Ìlò irinṣẹ́: { $count }, èyí tó kùnà: { $failed }.
tool-failed = { $tool } kùnà: { $reason }
tool-failed-plain = { $tool } kùnà.
tool-timeout = { $tool } pẹ́ jù, a sì fi í sílẹ̀.
percent = Ìdá { $percent } nínú ọgọ́rùn-ún.
step = Ìgbésẹ̀ { $step } nínú { $total }.
step-alone = Ìgbésẹ̀ { $step }.

gap = Ìkìlọ̀: àwọn ìfiránṣẹ́ kan sọnù.
gap-text = Ọ̀rọ̀ kan sọnù níbí.
flood = A fi ìfiránṣẹ́ { $count } sílẹ̀, nítorí wọ́n pọ̀ jù lẹ́ẹ̀kan náà.
connection-lost = Ìsopọ̀ pẹ̀lú { $agent } ti já.
connection-back = Ìsopọ̀ pẹ̀lú { $agent } ti padà.
key-changed = Ìkìlọ̀: { $agent } ń fi kọ́kọ́rọ́ mìíràn hàn. Ó lè jẹ́ ẹlòmíràn. Yẹ̀ ẹ́ wò kí o tó dáhùn.

nothing-new = Kò sí ohun tuntun.
nothing-runs = Kò sí ohun tó ń ṣiṣẹ́.
nothing-waits = Kò sí ohun tó ń dúró de ìdáhùn rẹ.
waiting-count = Ìbéèrè tó ń dúró de ìdáhùn rẹ: { $count }.
waiting-item = { $agent } béèrè pé: { $action } Àkókò tó kù: { $time }.
wrote-words = Iye ọ̀rọ̀ tó kọ: { $count }.
now-tool = Ó ń ṣiṣẹ́ lórí { $tool } báyìí, fún { $time }.
now-thinking = Ó ń ronú báyìí, fún { $time }.
now-writing = Ó ń kọ̀wé báyìí, fún { $time }.
now-working = Ó ń ṣiṣẹ́ báyìí, fún { $time }.
now-waiting = Ó ń dúró de ìdáhùn rẹ báyìí.

code-block = Kóòdù { $language }, ìlà { $lines }.
code-block-plain = Kóòdù, ìlà { $lines }.
diff = Àyípadà: ìlà { $added } ni a fi kún un, { $removed } ni a yọ kúrò.
diff-file = Àyípadà nínú { $file }: ìlà { $added } ni a fi kún un, { $removed } ni a yọ kúrò.
table = Tábìlì, òpó { $columns }, ìlà { $rows }.
table-more = Ìlà { $count } sí i.
link = ìjápọ̀ sí { $host }
link-text = { $text }, ìjápọ̀ sí { $host }
image = àwòrán: { $text }
image-plain = àwòrán
file-in = { $file } nínú { $folder }
long-number = nọ́ńbà oní dígíìtì { $count } tó parí sí { $ending }
long-code = kóòdù alámì { $count } tó bẹ̀rẹ̀ pẹ̀lú { $start }
text-cut = Ọ̀rọ̀ náà ṣì ń tẹ̀síwájú.

glyph-check = àmì ó dára
glyph-cross = àmì àṣìṣe
glyph-warning = ìkìlọ̀
glyph-task-done = a ti ṣe é
glyph-task-open = a kò tíì ṣe é
glyph-arrow = sí

symbol-dot = àmì dọ́ọ̀tì
symbol-period = àmì ìdánudúró
symbol-comma = àmì kọ́mà
symbol-colon = àmì kólọ́ọ̀nù
symbol-semicolon = àmì sẹ́míkólọ́ọ̀nù
symbol-question = àmì ìbéèrè
symbol-exclamation = àmì ìyanu
symbol-slash = slash
symbol-backslash = backslash
symbol-underscore = underscore
symbol-dash = dash
symbol-at = at
symbol-hash = hash
symbol-percent = nínú ọgọ́rùn-ún
symbol-ampersand = àmì àti
symbol-star = ìràwọ̀
symbol-plus = àròpọ̀
symbol-equals = ọgbọọgba
symbol-less = ó kéré ju
symbol-greater = ó pọ̀ ju
symbol-pipe = pipe
symbol-tilde = tilde
symbol-caret = caret
symbol-dollar = dọ́là
symbol-quote = àmì ọ̀rọ̀ ẹnu
symbol-apostrophe = apostrophe
symbol-backtick = backtick
symbol-left-parenthesis = àkámọ́ ìṣí
symbol-right-parenthesis = àkámọ́ ìpadé
symbol-left-bracket = àkámọ́ onígun ìṣí
symbol-right-bracket = àkámọ́ onígun ìpadé
symbol-left-brace = àkámọ́ ẹlẹ́wọ̀n ìṣí
symbol-right-brace = àkámọ́ ẹlẹ́wọ̀n ìpadé
