# Arabic. Waits for review by a native speaker.

agent-unknown = الوكيل
agent-says = { $agent }: { $text }

done = تم.
failed = فشل: { $text }
failed-remedy = ما يمكنك فعله: { $hint }
failed-retry = قد تنفع إعادة المحاولة.
failed-no-retry = لن تنفع إعادة المحاولة.
failed-needs-you = عليك أن تفعل شيئًا أولًا.
cancelled-user = أنت ألغيت العمل.
cancelled-producer = الوكيل ألغى العمل.
cancelled-timeout = أُلغي العمل لأن الوقت انتهى.
cancelled-system = النظام ألغى العمل.
cancelled-other = أُلغي العمل.
partial-result = قبل ذلك: { $text }

handoff-human = { $agent } يسلّم العمل إلى شخص: { $reason }
handoff-specialist = { $agent } يسلّم العمل إلى وكيل مختص: { $reason }
handoff-queue = { $agent } يسلّم العمل إلى قائمة انتظار: { $reason }
handoff-other = { $agent } يسلّم العمل: { $reason }
handoff-urgent = الأمر عاجل.

asks = { $agent } يسأل: { $action }
still-asks = { $agent } ما زال يسأل: { $action }
undo-never = لا يمكن التراجع عن هذا.
undo-easy = يمكن التراجع عن هذا.
undo-effort = يمكن التراجع عن هذا بجهد.
risk-low = الخطر قليل.
risk-medium = الخطر متوسط.
risk-high = الخطر كبير.
time-to-answer = الوقت المتاح للإجابة: { $time }.
default-reject = إن لم تجب فلن يُنفّذ.
default-accept = إن لم تجب فسيُنفّذ.
default-response = إن لم تجب فسيُفترض هذا: { $response }
default-goes-on = إن لم تجب فسيتابع الوكيل بدون إجابة.
answer-yes-no = أجب بنعم أو لا.
say-yes-no = قل نعم أو لا.
answer-text = أجب بكلماتك.
say-text = قل إجابتك.
answer-number = أجب برقم.
say-number = قل رقمًا.
answer-choice = أجب برقم اختيارك.
say-choice = قل رقم اختيارك.
choices =
    { $count ->
        [one] هناك خيار واحد.
        [two] هناك خياران.
        [few] هناك { $count } خيارات.
       *[other] هناك { $count } خيارًا.
    }
choice = { $number }: { $label }
context-entry = { $name }: { $value }
hidden-character = تحذير: في هذا النص حرف مخفي، { $code }.
direction-character = تحذير: في هذا النص حرف يغيّر ترتيبه، { $code }.
look-alike = تحذير: في الكلمة { $word } حروف تشبه غيرها فقط: { $letters }.
letter = الحرف { $number } هو { $code }

answer-sent = أُرسلت إجابتك.
answered-elsewhere = أُجيب عن السؤال في مكان آخر.
outcome-accepted = قُبل. يتابع الوكيل.
outcome-rejected = رُفض. لن يُنفّذ.
outcome-answered = أُجيب عن السؤال. يتابع الوكيل.
outcome-timed-out-done = لم تصل إجابة في الوقت. سيُنفّذ كما أُعلن.
outcome-timed-out-not-done = لم تصل إجابة في الوقت. لن يُنفّذ.
outcome-timed-out-goes-on = لم تصل إجابة في الوقت. يتابع الوكيل بدونها.
outcome-withdrawn = سُحب السؤال.

seconds =
    { $count ->
        [one] ثانية واحدة
        [two] ثانيتان
        [few] { $count } ثوان
       *[other] { $count } ثانية
    }
minutes =
    { $count ->
        [one] دقيقة واحدة
        [two] دقيقتان
        [few] { $count } دقائق
       *[other] { $count } دقيقة
    }
hours =
    { $count ->
        [one] ساعة واحدة
        [two] ساعتان
        [few] { $count } ساعات
       *[other] { $count } ساعة
    }

still-tool = ما زال يعمل على { $tool }، { $time }.
still-thinking = ما زال يفكر، { $time }.
still-writing = ما زال يكتب، { $time }.
still-working = ما زال يعمل، { $time }.
still-waiting = إجابتك ما زالت مطلوبة. الوقت الباقي: { $time }.
stalled = لا إشارة من { $agent } منذ { $time }. ربما توقف.

tool-calls =
    { $count ->
        [one] استدعاء أداة واحد.
        [two] استدعاءا أدوات.
        [few] { $count } استدعاءات أدوات.
       *[other] { $count } استدعاء أدوات.
    }
tool-calls-failed =
    { $count ->
        [one] استدعاء أداة واحد، { $failed ->
            [one] فشل واحد
           *[other] فشل { $failed }
        }.
        [two] استدعاءا أدوات، { $failed ->
            [one] فشل واحد
           *[other] فشل { $failed }
        }.
        [few] { $count } استدعاءات أدوات، { $failed ->
            [one] فشل واحد
           *[other] فشل { $failed }
        }.
       *[other] { $count } استدعاء أدوات، { $failed ->
            [one] فشل واحد
           *[other] فشل { $failed }
        }.
    }
tool-failed = فشل { $tool }: { $reason }
tool-failed-plain = فشل { $tool }.
tool-timeout = تأخر { $tool } كثيرًا فتُرك.
percent = { $percent } بالمئة.
step = الخطوة { $step } من { $total }.
step-alone = الخطوة { $step }.

gap = تحذير: ضاعت بعض الرسائل.
gap-text = هنا نص ناقص.
flood =
    { $count ->
        [one] تُركت رسالة واحدة لأن رسائل كثيرة وصلت معًا.
        [two] تُركت رسالتان لأن رسائل كثيرة وصلت معًا.
        [few] تُركت { $count } رسائل لأن رسائل كثيرة وصلت معًا.
       *[other] تُركت { $count } رسالة لأن رسائل كثيرة وصلت معًا.
    }
connection-lost = انقطع الاتصال مع { $agent }.
connection-ended = أنهى { $agent } الاتصال.
connection-back = عاد الاتصال مع { $agent }.
key-changed = تحذير: { $agent } يعرض مفتاحًا غير المفتاح السابق. قد يكون طرفًا آخر. تحقق قبل أن تجيب.

nothing-new = لا جديد.
nothing-runs = لا شيء يعمل الآن.
nothing-waits = لا شيء ينتظر إجابتك.
waiting-count =
    { $count ->
        [one] سؤال واحد ينتظر إجابتك.
        [two] سؤالان ينتظران إجابتك.
        [few] { $count } أسئلة تنتظر إجابتك.
       *[other] { $count } سؤالًا ينتظر إجابتك.
    }
waiting-item = { $agent } يسأل: { $action } الوقت الباقي: { $time }.
wrote-words =
    { $count ->
        [one] كتب كلمة واحدة.
        [two] كتب كلمتين.
        [few] كتب { $count } كلمات.
       *[other] كتب { $count } كلمة.
    }
now-tool = يعمل الآن على { $tool }، منذ { $time }.
now-thinking = يفكر الآن، منذ { $time }.
now-writing = يكتب الآن، منذ { $time }.
now-working = يعمل الآن، منذ { $time }.
now-waiting = ينتظر الآن إجابتك.

code-block =
    { $lines ->
        [one] شيفرة { $language }، سطر واحد.
        [two] شيفرة { $language }، سطران.
        [few] شيفرة { $language }، { $lines } أسطر.
       *[other] شيفرة { $language }، { $lines } سطرًا.
    }
code-block-plain =
    { $lines ->
        [one] شيفرة، سطر واحد.
        [two] شيفرة، سطران.
        [few] شيفرة، { $lines } أسطر.
       *[other] شيفرة، { $lines } سطرًا.
    }
diff = تغييرات: الأسطر المضافة { $added }، والمحذوفة { $removed }.
diff-file = تغييرات في { $file }: الأسطر المضافة { $added }، والمحذوفة { $removed }.
table = جدول، عدد الأعمدة { $columns }، وعدد الصفوف { $rows }.
table-more =
    { $count ->
        [one] صف واحد آخر.
        [two] صفان آخران.
        [few] { $count } صفوف أخرى.
       *[other] { $count } صفًا آخر.
    }
link = رابط إلى { $host }
link-text = { $text }، رابط إلى { $host }
image = صورة: { $text }
image-plain = صورة
file-in = { $file } في { $folder }
long-number = رقم من { $count } خانة ينتهي بـ { $ending }
long-code = رمز من { $count } حرفًا يبدأ بـ { $start }
text-cut = للنص بقية.

glyph-check = صح
glyph-cross = خطأ
glyph-warning = تحذير
glyph-task-done = منجز
glyph-task-open = لم يُنجز
glyph-arrow = إلى

symbol-dot = نقطة
symbol-period = نقطة
symbol-comma = فاصلة
symbol-colon = نقطتان
symbol-semicolon = فاصلة منقوطة
symbol-question = علامة استفهام
symbol-exclamation = علامة تعجب
symbol-slash = شرطة مائلة
symbol-backslash = شرطة مائلة عكسية
symbol-underscore = شرطة سفلية
symbol-dash = شرطة
symbol-at = آت
symbol-hash = مربع
symbol-percent = بالمئة
symbol-ampersand = علامة العطف
symbol-star = نجمة
symbol-plus = زائد
symbol-equals = يساوي
symbol-less = أصغر من
symbol-greater = أكبر من
symbol-pipe = خط عمودي
symbol-tilde = تيلدا
symbol-caret = علامة إقحام
symbol-dollar = دولار
symbol-quote = علامة اقتباس
symbol-apostrophe = فاصلة عليا
symbol-backtick = علامة نبر
symbol-left-parenthesis = قوس مفتوح
symbol-right-parenthesis = قوس مغلق
symbol-left-bracket = قوس معقوف مفتوح
symbol-right-bracket = قوس معقوف مغلق
symbol-left-brace = حاضنة مفتوحة
symbol-right-brace = حاضنة مغلقة

own-help = اكتب help لمعرفة ما يمكنك كتابته.
own-listening = الاستماع إلى { $agent } في { $address }.
own-takes-no-answers = { $agent } لا يقبل إجابات من هنا.
own-not-connected = لا اتصال مع { $agent } بعد. { $why } تجري المحاولة من جديد.
own-does-not-serve = { $agent } لا يقدّم الخدمة: { $why }
own-cannot-listen = لا يمكن الاستماع إلى { $agent }: { $why }
own-not-demanded = { $agent } ليس المطلوب: { $why }
own-number = السؤال { $number }. { $text }
own-cannot-answer = لا يمكن الإجابة عن السؤال { $number } من هنا.
own-not-sent-cannot = لم يُرسل شيء. لا يمكن الإجابة عن السؤال { $number } من هنا.
own-replaced = انتهى السؤال { $number } لأن سؤالًا آخر حلّ محلّه.
own-over = انتهى السؤال { $number }: { $how }.
own-not-sent-over = لم يُرسل شيء. انتهى السؤال { $number }: { $how }.
over-unanswerable = لم تكن الإجابة عنه ممكنة من هنا
over-answered = لقد أجبت عنه
over-elsewhere = حُسم في مكان آخر
over-expired = انتهى وقته
over-replaced = حلّ سؤال آخر محلّه
over-session = انتهت جلسته
over-connection = فُقد الاتصال
over-withdrawn = سُحب
over-on-its-way = إجابتك في الطريق
over-long-ago = كان ذلك منذ زمن
own-not-sent-to = لم يُرسل شيء إلى السؤال { $number }. { $why }
refused-gone = لم يعد السؤال مفتوحًا.
refused-away = لا يمكن الوصول إلى الوكيل الآن.
refused-not-granted = لا يقبل الوكيل إجابات من هنا.
refused-not-allowed = لا يقبل السؤال هذه الإجابة.
refused-kind = يطلب السؤال نوعًا آخر من الإجابة.
refused-over = انتهى الاشتراك.
takes-yes-no = هذا السؤال يقبل نعم أو لا.
takes-choice = هذا السؤال يقبل رقم خيار من 1 إلى { $last }.
takes-number = هذا السؤال يقبل عددًا.
takes-no-such-number = هذا ليس عددًا.
takes-words = هذا السؤال يقبل كلمات.
takes-nothing = هذا ليس سؤالًا.
own-nothing-waits = لا شيء ينتظر إجابة. لم يُرسل شيء.
own-no-question = لا يوجد سؤال { $number }.
own-not-sent-no-question = لم يُرسل شيء. لا يوجد سؤال { $number }.
own-no-such-question = لا يوجد سؤال كهذا.
own-too-new = لم يُرسل شيء لأن هذا السؤال وصل وأنت تجيب. ها هو مرة أخرى.
own-put-first = لم يُرسل شيء. سؤال آخر ينتظر. ها هو.
own-which = لم يُرسل شيء لأن أكثر من سؤال ينتظر. حدّد أيّها، مثل: yes 1.
own-whole-word = السؤال { $number } يحتاج إلى الكلمة كاملة. اكتب yes للموافقة. لم يُرسل شيء.
own-not-understood = لم يُفهم ذلك ولم يُرسل شيء. { $hint } اكتب help لمعرفة ما يمكنك كتابته.
own-hint-nothing = لا شيء ينتظر إجابة.
own-waits-for = السؤال { $number } ينتظر { $time }.
own-nothing-said = لم يُقل شيء بعد.
own-waiting = السؤال { $number }: { $text } الوقت المتبقي: { $time }.
own-first = كان ذلك الأول.
own-last = كان ذلك الأخير.
own-hear-normal-again = تسمع مجددًا كل ما هو معتاد.
own-hear-normal = تسمع الآن الكلمات المعتادة.
own-hear-details = تسمع الآن كل التفاصيل.
own-hear-little = تسمع الآن الأسئلة والإخفاقات والنتائج فقط.
own-hear-short = تسمع الآن كلمات قصيرة.
own-more-time = ابتداءً من السؤال التالي تطلب { $factor } أضعاف الوقت.
own-keeps-time = يحتفظ السؤال { $number } بوقته. المتبقي: { $time }.
own-name-agent = سمِّ وكيلًا: { $names }.
own-muted = تسمع الآن من { $agent } الأسئلة والإخفاقات فقط. اكتب unmute { $agent } لسماع كل شيء.
own-unmuted = تسمع { $agent } من جديد.
own-not-muted = { $agent } ليس صامتًا.
own-close = سؤال ينتظر. اكتب close للمغادرة رغم ذلك.
own-other-window = أُجيب عن السؤال { $number } من نافذة أخرى: { $words }.
own-on-its-way = الإجابة عن السؤال { $number } في الطريق.
own-on-its-way-already = الإجابة عن السؤال { $number } في الطريق بالفعل.
own-name-number = أكثر من سؤال ينتظر؛ اذكر رقمه.
own-just-came = وصل السؤال { $number } للتو؛ اذكر رقمه.
own-needs-care = السؤال { $number } عن أمر يحتاج إلى حذر؛ اذكر رقمه.
own-command-failed = لم يُجب أمرك عن السؤال { $number }: { $why }. ما زال ينتظرك.
own-command-silent = لم يعطِ أمرك إجابة عن السؤال { $number }. ما زال ينتظرك.
own-command-answered = أجاب أمرك عن السؤال { $number }: { $words }.
own-command-not-sent = لم تُرسل إجابة أمرك. { $why } ما زال السؤال ينتظرك.
own-no-sound = لا صوت: { $why }.
own-voice-on-already = الصوت مفعّل بالفعل.
own-voice-on = الصوت مفعّل.
own-no-voice = لا يوجد صوت: { $why }.
own-voice-off = الصوت متوقف.
own-voice-off-already = الصوت متوقف بالفعل.
own-voice-gone = فُقد الصوت: { $why }.
own-voice-back = عاد الصوت.
own-no-braille = لا يوجد عارض برايل: { $why }.
