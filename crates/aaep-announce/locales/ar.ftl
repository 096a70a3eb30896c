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
time-left = الوقت الباقي للإجابة: { $time }.
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

answer-sent = أُرسل: { $words }
word-yes = نعم
word-no = لا
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
connection-ended = أنهى { $agent } الاتصال. سيُعلن عن عودته.
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

ui-help = اكتب help لمعرفة ما يمكنك كتابته.
ui-listening = الاستماع إلى { $agent } في { $address }.
ui-takes-no-answers = { $agent } لا يقبل إجابات من هنا.
ui-not-connected = لا اتصال مع { $agent } بعد. { $why } تجري المحاولة من جديد.
ui-does-not-serve = { $agent } لا يقدّم الخدمة: { $why }
ui-needs-token = أعطِ رمز دخول صالحًا: aaep listen --token FILE أو AAEP_TOKEN.
ui-cannot-listen = لا يمكن الاستماع إلى { $agent }: { $why }
ui-not-demanded = { $agent } ليس المطلوب: { $why }
ui-number = السؤال { $number }. { $text }
ui-cannot-answer = لا يمكن الإجابة عن السؤال { $number } من هنا.
ui-not-sent-cannot = لم يُرسل شيء. لا يمكن الإجابة عن السؤال { $number } من هنا.
ui-replaced = انتهى السؤال { $number } لأن سؤالًا آخر حلّ محلّه.
ui-over = انتهى السؤال { $number }: { $how }.
ui-not-sent-over = لم يُرسل شيء. انتهى السؤال { $number }: { $how }.
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
ui-not-sent-to = لم يُرسل شيء إلى السؤال { $number }. { $why }
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
ui-nothing-waits = لا شيء ينتظر إجابة. لم يُرسل شيء.
ui-no-question = لا يوجد سؤال { $number }.
ui-not-sent-no-question = لم يُرسل شيء. لا يوجد سؤال { $number }.
ui-no-such-question = لا يوجد سؤال كهذا.
ui-too-new = لم يُرسل شيء لأن هذا السؤال وصل وأنت تجيب. ها هو مرة أخرى.
ui-put-first = لم يُرسل شيء. سؤال آخر ينتظر. ها هو.
ui-which = لم يُرسل شيء لأن أكثر من سؤال ينتظر. حدّد أيّها، مثل: yes 1.
ui-whole-word = السؤال { $number } يحتاج إلى الكلمة كاملة. اكتب yes للموافقة. لم يُرسل شيء.
ui-takes-words = لم يُرسل شيء. السؤال { $number } يقبل كلمات. لإرسال الكلمة { $word } اكتب: to { $number } { $word }
ui-not-understood = لم يُفهم ذلك ولم يُرسل شيء. { $hint } اكتب help لمعرفة ما يمكنك كتابته.
ui-hint-nothing = لا شيء ينتظر إجابة.
ui-nothing-said = لم يُقل شيء بعد.
ui-waiting = السؤال { $number }: { $text } الوقت المتبقي: { $time }.
ui-first = كان ذلك الأول.
ui-last = كان ذلك الأخير.
ui-hear-normal-again = تسمع مجددًا كل ما هو معتاد.
ui-hear-normal = تسمع الآن الكلمات المعتادة.
ui-hear-details = تسمع الآن كل التفاصيل.
ui-hear-little = تسمع الآن الأسئلة والإخفاقات والنتائج فقط.
ui-hear-short = تسمع الآن كلمات قصيرة.
ui-more-time = ابتداءً من السؤال التالي تطلب { $factor } أضعاف الوقت.
ui-keeps-time = يحتفظ السؤال { $number } بوقته. المتبقي: { $time }.
ui-no-work = لا يعمل أي وكيل الآن.
ui-no-such-work = لا يوجد وكيل يعمل بالرقم أو الاسم { $name }.
ui-cancel-which = لم يُطلب التوقف من أحد. اكتب cancel ورقمًا:
ui-work = الرقم { $number }: { $agent }.
ui-cancel-asked = طُلب من { $agent } أن يتوقف. الوكيل يقرر بنفسه.
ui-cancel-not-offered = لا يمكن الطلب من { $agent } أن يتوقف من هنا.
ui-cancel-not-connected = لم يُطلب من { $agent } أن يتوقف لأنه غير متصل الآن.
ui-name-agent = سمِّ وكيلًا: { $names }.
ui-muted = تسمع الآن من { $agent } الأسئلة والإخفاقات فقط. اكتب unmute { $agent } لسماع كل شيء.
ui-unmuted = تسمع { $agent } من جديد.
ui-not-muted = { $agent } ليس صامتًا.
ui-no-agent = لا يوجد وكيل { $name }. { $hint }
ui-agents = الوكلاء هنا: { $names }.
ui-no-agents = لا يُعرف أي وكيل بعد.
ui-close = سؤال ينتظر. اكتب close للمغادرة رغم ذلك.
ui-other-window = أُجيب عن السؤال { $number } من نافذة أخرى: { $words }.
ui-on-its-way = الإجابة عن السؤال { $number } في الطريق.
ui-on-its-way-already = الإجابة عن السؤال { $number } في الطريق بالفعل.
ui-name-number = أكثر من سؤال ينتظر؛ اذكر رقمه.
ui-just-came = وصل السؤال { $number } للتو؛ اذكر رقمه.
ui-needs-care = السؤال { $number } عن أمر يحتاج إلى حذر؛ اذكر رقمه.
ui-command-failed = لم يُجب أمرك عن السؤال { $number }: { $why }. ما زال ينتظرك.
ui-command-silent = لم يعطِ أمرك إجابة عن السؤال { $number }. ما زال ينتظرك.
ui-command-answered = أجاب أمرك عن السؤال { $number }: { $words }.
ui-command-not-sent = لم تُرسل إجابة أمرك. { $why } ما زال السؤال ينتظرك.
ui-no-sound = لا صوت: { $why }.
ui-voice-on-already = الصوت مفعّل بالفعل.
ui-voice-on = الصوت مفعّل.
ui-no-voice = لا يوجد صوت: { $why }.
ui-voice-off = الصوت متوقف.
ui-voice-off-already = الصوت متوقف بالفعل.
ui-stopped = توقف الكلام. الوكلاء مستمرون.
ui-nothing-spoken = لا يُقال شيء الآن. الوكلاء مستمرون.
ui-shortened = الرموز الطويلة مختصرة. اكتب details all لكل الأحرف.
ui-voice-gone = فُقد الصوت: { $why }.
ui-voice-back = عاد الصوت.
ui-no-braille = لا يوجد عارض برايل: { $why }.
ui-braille-lost = فُقد عارض برايل.

## Phrases of the web page

page-title = تابع وكلاءك
page-connecting = جارٍ الاتصال.
page-connected = متصل بـ { $agent }.
page-refused = غير متصل. { $why }
page-closed = أُغلق الاتصال.
page-sign-in = تسجيل الدخول
page-token = الرمز
page-token-hint = يحتاج هذا الخادم إلى رمز. يبقى الرمز في هذه الصفحة ويزول عند إغلاقها.
page-questions = أسئلة
page-answer-question = أجب عن السؤال { $number }
page-asks = { $agent } يسأل
page-yes = نعم، افعل ذلك
page-no = لا، لا تفعل ذلك
page-sure = هل أنت متأكد؟
page-back = رجوع
page-yes-for-good = نعم، نهائيا
page-repeat = كرر
page-time-left = الوقت المتبقي
page-more-time = وقت أطول
page-later = لاحقا
page-later-said = لم يُرسل شيء. ما زال السؤال ينتظر في قائمة الأسئلة.
page-send = أرسل
page-your-answer = إجابتك
page-your-number = رقمك
page-choose = اختر واحدا
page-nothing-chosen = اختر إجابة أولا.
page-nothing-typed = اكتب إجابة أولا.
page-option-yes = نعم
page-option-no = لا
page-not-sent = لم يُرسل شيء. { $why }
page-another-question =
    { $count ->
        [one] سؤال آخر ينتظر.
       *[other] سؤال آخر ينتظر. عدد الأسئلة الآن { $count }.
    }
page-over-session = انتهى السؤال لأن جلسته انتهت.
page-over-connection = انتهى السؤال لأن الاتصال انقطع.
page-views = طرق العرض
page-transcript = السجل
page-tab-captions = التسميات التوضيحية
page-tab-inspector = الفاحص
page-tab-operator = المشغل
page-tab-settings = الإعدادات
page-tab-demo = عرض توضيحي
page-scenes = المشاهد
page-scenes-hint = ابدأ مشهدا واسمع ما يفعله الوكيل وما يسأله.
page-start-scene = ابدأ { $name }
page-scene-starts = يبدأ { $name }.
page-show = عرض
page-kind-all = كل شيء
page-kind-questions = الأسئلة
page-kind-text = النص
page-kind-tools = الأدوات
page-kind-results = النتائج والإخفاقات
page-kind-states = الحالات والتقدم
page-search = بحث
page-found =
    { $count ->
        [zero] لم يوجد أي إدخال.
        [one] وُجد إدخال واحد.
        [two] وُجد إدخالان.
        [few] وُجدت { $count } إدخالات.
       *[other] وُجد { $count } إدخالا.
    }
page-next-unread = التالي غير المقروء
page-no-unread = لا يوجد غير مقروء.
page-export = تصدير كنص
page-earlier = عرض الأقدم
page-newer = عرض الأحدث
page-newest = عرض آخر الأحداث
page-empty = لم يحدث شيء بعد.
page-removed =
    { $count ->
        [one] أُزيل إدخال أقدم لتوفير الذاكرة.
       *[other] أُزيل { $count } من الإدخالات الأقدم لتوفير الذاكرة.
    }
page-keys = في السجل، تنقلك مفاتيح الأسهم من إدخال إلى إدخال، وPage Up وPage Down من جلسة إلى جلسة، وK إلى الإدخال التالي من النوع نفسه، وU إلى التالي غير المقروء.
page-stop = اطلب من { $agent } التوقف
page-name-session = جلسة
page-name-state = حالة
page-name-tool = أداة
page-name-progress = تقدم
page-name-text = نص
page-name-question = سؤال
page-name-handoff = تسليم
page-name-result = نتيجة
page-name-failure = إخفاق
page-name-other = حدث
page-caption-size = حجم النص
page-captions-empty = تظهر التسميات هنا.
page-terms = الشروط
page-term = الشرط
page-requested = المطلوب
page-honored = الممنوح
page-change-terms = غيّر الشروط
page-terms-changed = تغيرت الشروط.
page-events = الأحداث
page-received =
    { $count ->
        [one] استُلم حدث واحد.
        [two] استُلم حدثان.
        [few] استُلمت { $count } أحداث.
       *[other] استُلم { $count } حدثا.
    }
page-capture = احفظ كملف
page-clear = امسح
page-no-findings = يطابق المخطط.
page-findings =
    { $count ->
        [one] ملاحظة واحدة.
        [two] ملاحظتان.
        [few] { $count } ملاحظات.
       *[other] { $count } ملاحظة.
    }
page-latency = استُلم بعد { $millis } ملي ثانية من إصداره.
page-subscriptions = الاشتراكات
page-subscription = الاشتراك
page-user = المستخدم
page-delivered = المسلَّم
page-held = المحجوز
page-coalesced = المدمج
page-queued = في الانتظار
page-none = لا يوجد.
page-open-questions = أسئلة مفتوحة
page-asked = وقت السؤال
page-decisions = قرارات حديثة
page-decided = وقت القرار
page-resolution = النتيجة
page-plot = أحداث في الثانية خلال آخر دقيقتين
page-time = الوقت
page-rate = أحداث في الثانية
page-forbidden = رمزك لا يسمح بهذا العرض. يحتاج إلى الدور admin.
page-no-numbers = لا يمكن قراءة الأرقام حاليا.
page-verbosity = التفصيل
page-terse = قصير
page-normal = عادي
page-detailed = كل التفاصيل
page-load = كم في المرة الواحدة
page-load-hint = مع القليل، تسمع الأسئلة والإخفاقات والنتائج فقط.
page-low = قليل
page-medium = متوسط
page-high = كثير
page-pace = كلمات في الدقيقة
page-languages = اللغات
page-languages-hint = الأفضل أولا، مثل: ar, en. تتغير الصفحة نفسها عند تحميلها من جديد.
page-time-to-answer = وقت الإجابة
page-time-factor =
    { $factor ->
        [1] كما يطلب الوكيل
       *[other] { $factor } أضعاف
    }
page-time-hint = يسري ابتداء من السؤال التالي.
page-announcing = إعلانات لقارئ الشاشة
page-announcing-hint = إذا لم تسمع شيئا فاختر المناطق الحية.
page-automatic = تلقائي
page-live-region = المناطق الحية
page-off = متوقف
page-announced = ما يُعلن
page-voice = تحدث بصوت المتصفح، لمن ليس لديه قارئ شاشة
page-sounds = الأصوات
