//! Where text may be cut, in many languages.
//!
//! In the cases `|` is a sentence mark, `¶` a paragraph mark and `¦` the bar of a table. The mark at the end of the text is
//! always present and not written.

use aaep_proto::language::LanguageTag;
use aaep_proto::shaping::segment::{BoundaryLevel, BoundaryMark, Segmenter, Segments, Syntax};
use icu_segmenter::GraphemeClusterSegmenter;
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use Syntax::{Markdown, Plain};

#[rustfmt::skip]
const CASES: &[(&str, Syntax, &str)] = &[
    // English: full stops that end no sentence.
    ("en", Plain, "It works. |Nothing else changed."),
    ("en", Plain, "Dr. Okoro met Mr. Lind vs. Mrs. Ray, e.g. Monday. |They left."),
    ("en", Plain, "J. R. R. Tolkien wrote it. |C. S. Lewis read it."),
    ("en", Plain, "Vitamin C. |The dose is small."),
    ("en", Plain, "She moved to the U.S. |The trip was long."),
    ("en", Plain, "The U.S. Army and Acme Inc. Europe agreed."),
    ("en", Plain, "Pi is 3.14 in v1.2.3 or so. |See No. 5 and Fig. 2. |No. |Never."),
    ("en", Plain, "Apples, pears etc. are fine. |Plums etc. |Next item."),
    ("en", Plain, "It takes approx. 5 minutes. |Wait."),
    ("en", Plain, "Wait... what? |Well... |Maybe… not. |Fine… |Go."),
    ("en", Plain, "And . . . then it stopped. |Yes."),
    ("en", Plain, "Read https://example.org/a.b?c=D!E and notes.txt. |Mail a.b@example.org. |Done."),
    ("en", Plain, "Edit it. |.env is next. |The end."),
    ("en", Plain, "He said \"Stop.\" |Then he left (at last.) |“Why?” she asked. |“So!” |Nobody knew."),
    ("en", Plain, "It rained.[1] |It snowed.[2, 3] |See a.[x] there."),
    ("en", Plain, "Great! |🎉 Really?! |Yes!!! |ok then."),
    ("en", Plain, "Done.👍🏽 |Next 👨‍👩‍👧‍👦 family. |End."),
    ("en", Plain, "What?|No.Yes!|Sure."),
    ("en", Plain, "Steps: 1. Open it. |2. Close it. |It was 7. |Then 8."),
    ("en", Plain, "He works at Acme Corp. |He likes it, i.e. Mondays too."),
    ("en", Plain, "Meet at 5 p.m. |We eat then, at 6 p.m. London time."),
    ("en", Plain, "One (two. |Three.) |Four. |“Five.” |‘Six.’ |Seven."),
    ("en", Plain, "This is **bold.** |This is not."),
    ("en", Plain, "cafe\u{301}. |E\u{301}te\u{301} came."),
    ("en", Plain, "a.\u{200d} b"),
    // Lines and paragraphs.
    ("en", Plain, "one\ntwo. \n|Three\n\n¶four\n \n\n¶  five\n"),
    ("en", Plain, "Buy:\n|- milk\n|- bread and\n  butter\n|• eggs\n|1. one\n|2) two"),
    ("en", Plain, "one\r\n\r\n¶two.\r\n|Three"),
    ("en", Plain, "\n\n  Hello. |There"),
    ("en", Plain, "We ended in\n2024. |Then\n-5 degrees"),
    ("en", Plain, "approx.\n5 km. \n|and more"),
    // Markdown.
    ("en", Markdown, "# 1. Title\n¶Text. |More.\n¶## Next\n¶- a. B\n|- c\n|  1. d"),
    ("en", Markdown, "Run `a. B` now. |`c` is next. |Use ``x ` y. Z`` too. |End"),
    ("en", Markdown, "See:\n¶```rust\nlet a = 1. B\n\n# no. No\n- x\n```\n¶After. |That"),
    ("en", Markdown, "~~~~\na\n~~~\nB. C\n~~~~ \n\n¶Text"),
    ("en", Markdown, "1. Do\n¶   ```\n   a. B\n   ```\n¶2. Then"),
    ("en", Markdown, "- a\n¶- ```\n  x. Y\n  ```\n¶- b"),
    ("en", Markdown, "Open\n¶```\nnever. Closed\n\n\nStill. Code"),
    ("en", Markdown, "```a. B``` is inline. |Yes\n\n¶``` ``\nx"),
    ("en", Markdown, "Intro:\n|¦ a. B ¦ c ¦\n|¦---¦---¦\n|¦ 1. ¦ D. E ¦\n|Text\n"),
    ("en", Markdown, "Title\n---\n¶Text. |More\n\n¶***\n\n¶End"),
    ("en", Markdown, "Said\n¶> One. |Two\n> three\n>\n¶> four"),
    ("en", Markdown, "- **Fast.** |It runs.\n|- [Link.](https://a.b/c) works. |Yes\n|* x"),
    ("en", Markdown, "- *Fast.* |It\n|+ y"),
    // Latin script elsewhere.
    ("de", Plain, "Wir treffen uns am 3. Mai um 9 Uhr. |Danach essen wir, z. B. Nudeln."),
    ("de", Plain, "Hr. Dr. Weiß kommt, d. h. Frau Weiß auch. |Vgl. Nr. 4 auf S. 12. |Gut."),
    ("de", Plain, "»Ja.« |»Nein!«, rief er. |„Doch.“ |Der Ort liegt im 2. Stock. |Im Jahr 2024. |Es endet am 5. |Dann Ruhe."),
    ("de", Plain, "Der II. Weltkrieg endete. |Ludwig XIV. war König."),
    ("fr", Plain, "M. Dupont arrive. |« Oui. » |Mme Roy dit : « Non ! » |Il part."),
    ("fr", Plain, "Vraiment ? |Oui ! |C’est cher, p. ex. Paris. |J.-P. Martin le sait."),
    ("es", Plain, "El Sr. García vino. |¿Por qué? |¡No sé! |Compra fruta, p. ej. Manzanas."),
    ("es", Plain, "Dijo «sí». |¿Y tú? |Vive en EE. UU. |El viaje fue largo."),
    ("pt", Plain, "A Sra. Lima saiu. |O Dr. J. A. Costa ficou na pág. 3. |Não há mais."),
    ("it", Plain, "Il sig. Rossi dorme. |La dott.ssa Bianchi legge, p.es. Dante. |È tardi."),
    ("nl", Plain, "Dhr. Jansen komt bijv. Maandag. |Hij is er om 9 uur."),
    ("pl", Plain, "Prof. Nowak mieszka przy ul. Długiej. |Spotkanie jest 3. Maja, tzn. Jutro. |Dobrze."),
    ("tr", Plain, "Dr. Yılmaz geldi. |1. Dünya Savaşı bitti. |İstanbul güzel. |Sence?"),
    ("yo", Plain, "Ó dára o. |Mo ń lọ sí ọjà. |Ṣé o wà?"),
    ("vi", Plain, "Vâng ạ. |Tôi đi Hà Nội. |Bạn khỏe không? |Khỏe."),
    ("fi", Plain, "”Tule!” |”En tule.” |Hän lähti 3. Kesäkuuta."),
    ("sw", Plain, "Habari yako? |Nzuri sana. |Asante."),
    ("cs", Plain, "Sejdeme se 5. Května odpoledne. |Přijď včas."),
    // Cyrillic, Greek, Armenian, Georgian.
    ("ru", Plain, "Г-н А. С. Петров живёт на ул. Мира. |Это далеко, т. е. Почти час."),
    ("ru", Plain, "— Пошли! — сказал он. |— Куда? |— Домой. |«Нет». |Все молчали…  |Потом ушли."),
    ("ru", Plain, "Он сказал: „Да.“ |Она ушла. |Взял хлеб и т. д. и т. п. |Затем ушёл."),
    ("uk", Plain, "Він прийшов о 9.30. |Вона пішла."),
    ("el", Plain, "Τι κάνεις; |Καλά είμαι. |Εσύ;"),
    ("el", Plain, "Ο κ. Παππάς ήρθε. |«Ναι.» |Πήγε π.χ. Αθήνα. |Τέλος."),
    ("el", Plain, "Πού πας\u{37e} |Σπίτι."),
    ("en", Plain, "First; Second. |Third\u{37e} |Fourth."),
    ("hy", Plain, "Բարեւ ձեզ։ |Ինչպե՞ս եք։ |Լավ եմ։"),
    ("ka", Plain, "გამარჯობა. |როგორ ხარ? |კარგად."),
    // Right to left.
    ("ar", Plain, "ذهب إلى البيت. |هل عاد؟ |نعم، عاد! |ثم نام."),
    ("ar", Plain, "هل هذا صحيح؟\u{200f} |نعم."),
    ("ar", Plain, "قال د. أحمد: «نعم.» |ثم ذهب. |كم السعر؟ |3.5 دولار."),
    ("fa", Plain, "حال شما چطور است؟ |خوبم. |متشکرم."),
    ("ur", Plain, "وہ گھر گیا۔ |کیا وہ آیا؟ |ہاں۔"),
    ("he", Plain, "הוא הלך הביתה. |למה? |ככה."),
    // South and South-East Asia, Ethiopia.
    ("hi", Plain, "वह घर गया। |क्या वह आया? |हाँ।|नहीं॥ |ठीक है।"),
    ("hi", Plain, "डॉ. शर्मा आए। |श्री ए. पी. सिंह गए।"),
    ("bn", Plain, "সে বাড়ি গেল। |তুমি কেমন আছ? |ভালো।"),
    ("ne", Plain, "म घर जान्छु। |तिमी कहाँ छौ?"),
    ("ta", Plain, "அவன் வந்தான். |நீ எங்கே? |வீட்டில்."),
    ("th", Plain, "วันนี้อากาศดี เราไปตลาด พ.ศ. 2567 ราคา 3.50 บาท ฯลฯ. แล้วกลับบ้าน"),
    ("th", Plain, "ย่อหน้าแรก ยังไม่จบ\n\n¶ย่อหน้าที่สอง"),
    ("km", Plain, "ខ្ញុំទៅផ្សារ។ |អ្នកទៅណា? |ទៅផ្ទះ។"),
    ("my", Plain, "သူ အိမ်ပြန်သည်။ |ငါ၊ နင် လာမည်။|ဟုတ်ကဲ့။"),
    ("am", Plain, "ወደ ቤት ሄደ። |መቼ ይመጣል፧ |ነገ።"),
    // East Asia.
    ("zh", Plain, "他走了。|她问：「你去哪里？」|没有回答！|「好。」|（完。）|结束"),
    ("zh", Plain, "价格是3.5元。|真的吗？！|是的……我想是。|版本1.2。|完"),
    ("zh", Plain, "她说：“不行！”|“为什么？”|“没什么。”|然后走了。"),
    ("zh", Plain, "他来了.|她走了. |好"),
    ("ja", Plain, "今日は晴れです。|「行きますか？」|はい！|『本。』|終わり"),
    ("ja", Plain, "彼は「はい。」と言った。|そして帰った！？|本当？ |うん。"),
    ("ja", Markdown, "- 一つ。|二つ\n|- 三つ\n\n¶`コード。` です。|次"),
    ("ko", Plain, "밥을 먹었다. |어디 가니? |네. |집에 간다.|끝"),
];

/// Word marks: `|` is any mark.
#[rustfmt::skip]
const WORDS: &[(&str, Syntax, &str)] = &[
    ("en", Plain, "Well, |the |and/or |(quick) |fox. |It’s |3.5 |km."),
    ("en", Markdown, "- one |two\n|- three |`a b` |four"),
    ("en", Markdown, "a |b\n|```\nc d\n```\n|e"),
    ("en", Plain, "one\n|  two  |three"),
    ("zh", Plain, "我们|喜欢|音乐，|你们|呢？|「好」|吧"),
    ("ja", Plain, "私|は|学生|です。|東京|に|行く"),
    ("th", Plain, "ฉัน|รัก|ภาษา|ไทย |มาก"),
];

fn segmenter(language: &str, syntax: Syntax, words: bool) -> Segmenter {
    let tag: LanguageTag = language.parse().expect("a tag");
    let segmenter = Segmenter::new(syntax, Some(&tag));
    if words { segmenter.with_words() } else { segmenter }
}

/// Pushes the pieces and checks the invariants after every push.
fn feed<'t>(mut segmenter: Segmenter, pieces: impl Iterator<Item = &'t str>) -> Segments {
    let mut all = Segments::default();
    let mut out = Segments::default();
    let end = |all: &mut Segments, out: &mut Segments| {
        all.text.push_str(&out.text);
        for mark in out.marks.drain(..) {
            assert!(mark.at <= all.text.len() as u64, "{mark:?} beyond {:?}", all.text);
            assert!(all.marks.last().is_none_or(|last| last.at < mark.at), "{mark:?} after {:?}", all.marks);
            all.marks.push(mark);
        }
        out.text.clear();
    };
    for piece in pieces {
        segmenter.push(piece, &mut out);
        end(&mut all, &mut out);
    }
    segmenter.finish(&mut out);
    end(&mut all, &mut out);
    all
}

/// Splits the text after some characters, chosen by the seed.
fn pieces(text: &str, seed: u64) -> Vec<&str> {
    let mut state = seed;
    let mut cuts = vec![0];
    for (at, _) in text.char_indices().skip(1) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if seed == 0 || (state >> 33).is_multiple_of(1 + seed % 7) {
            cuts.push(at);
        }
    }
    cuts.push(text.len());
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

fn show(segments: &Segments) -> String {
    let mut shown = segments.text.replace('|', "¦");
    for mark in segments.marks.iter().rev().filter(|mark| mark.at < segments.text.len() as u64) {
        let at = mark.at as usize + segments.text[..mark.at as usize].matches('|').count();
        shown.insert_str(at, if mark.level == BoundaryLevel::Paragraph { "¶" } else { "|" });
    }
    shown
}

fn check(case: &(&str, Syntax, &str), words: bool) -> Result<(), String> {
    let &(language, syntax, expected) = case;
    let expected: String = expected.nfc().collect();
    let text = case.2.replace(['|', '¶'], "").replace('¦', "|");
    let whole = feed(segmenter(language, syntax, words), [text.as_str()].into_iter());
    let shown = if words { show(&whole).replace('¶', "|") } else { show(&whole) };
    for seed in 0..20 {
        let cut = feed(segmenter(language, syntax, words), pieces(&text, seed).into_iter());
        assert_eq!(cut, whole, "{language}: cut with seed {seed}");
    }
    if shown == expected { Ok(()) } else { Err(format!("{language}\n  expected {expected:?}\n  got      {shown:?}")) }
}

fn check_all(cases: &[(&str, Syntax, &str)], words: bool) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case, words).err()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn sentences_and_paragraphs() {
    check_all(CASES, false);
}

#[test]
fn words() {
    check_all(WORDS, true);
}

/// Words add marks but change none.
#[test]
fn words_leave_sentences_alone() {
    for (language, syntax, text) in CASES {
        let text = text.replace(['|', '¶'], "").replace('¦', "|");
        let run = |words| feed(segmenter(language, *syntax, words), [text.as_str()].into_iter()).marks;
        let strong: Vec<BoundaryMark> = run(true).into_iter().filter(|mark| mark.level > BoundaryLevel::Word).collect();
        assert_eq!(strong, run(false), "{language} {text:?}");
    }
}

#[test]
fn all_but_the_last_cluster_is_released_at_once() {
    let mut segmenter = segmenter("en", Plain, false);
    let mut out = Segments::default();
    for (piece, released) in
        [("ab", "a"), ("\u{301}", "a"), ("c", "ab\u{301}"), ("e", "ab\u{301}c"), ("\u{301}", "ab\u{301}c")]
    {
        segmenter.push(piece, &mut out);
        assert_eq!(out.text, released);
    }
    segmenter.finish(&mut out);
    assert_eq!(out.text, "ab\u{301}c\u{e9}");
    assert_eq!(out.marks, [BoundaryMark { at: 7, level: BoundaryLevel::Paragraph }]);
}

/// Combining marks that the cluster rules may not know yet are still reordered.
#[test]
fn new_marks_are_normalized() {
    for text in ["a\u{1ade}\u{323}", "\u{200b}\u{301}\u{5c8}\u{5b0}", "\n\u{10ef0}\u{323}"] {
        let segments = feed(segmenter("en", Plain, false), text.split_inclusive(char::is_alphanumeric));
        assert_eq!(segments.text, text.nfc().collect::<String>());
    }
}

#[test]
fn no_text_has_no_marks() {
    assert_eq!(feed(segmenter("en", Plain, true), ["", ""].into_iter()), Segments::default());
}

#[test]
fn a_flood_of_marks_is_released_in_pieces() {
    let text = format!("a{}", "\u{301}".repeat(10_000));
    let mut segmenter = segmenter("en", Plain, true);
    let mut out = Segments::default();
    segmenter.push(&text, &mut out);
    assert!(text.len() - out.text.len() < 300);
    segmenter.finish(&mut out);
    assert_eq!(out.text.nfc().collect::<String>(), text.nfc().collect::<String>());
    assert_eq!(out.marks.len(), 1);
}

fn holds(text: &str, syntax: Syntax, language: &str, seed: u64) -> Result<(), TestCaseError> {
    let whole = feed(segmenter(language, syntax, true), [text].into_iter());
    prop_assert_eq!(&whole.text, &text.nfc().collect::<String>());
    for seed in [0, seed] {
        prop_assert_eq!(&feed(segmenter(language, syntax, true), pieces(text, seed).into_iter()), &whole);
    }
    let clusters: Vec<usize> = GraphemeClusterSegmenter::new().segment_str(&whole.text).collect();
    for mark in &whole.marks {
        prop_assert!(clusters.binary_search(&(mark.at as usize)).is_ok(), "{:?} cuts a cluster", mark);
    }
    prop_assert_eq!(whole.marks.last().map(|mark| mark.at as usize), (!text.is_empty()).then_some(whole.text.len()));
    Ok(())
}

/// Pieces that occur in the rules.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    ".", "...", "…", "!", "?", "。", "؟", "।", " ", "  ", "\n", "\n\n", "\r\n", "\r", "a", "B", "Dr", "The", "U.S", "3",
    "12", "- ", "* ", "1. ", "# ", "```", "~~~", "`", "|", "> ", "---", "(", ")", "\"", "»", "«", "[1]", "—", ",", ":",
    "://", "e\u{301}", "\u{301}", "\u{323}", "\u{200d}", "\u{fe0f}", "👩", "🇳", "🇬", "ก", "ภาษาไทย", "中文", "ひらがな",
    "각", "\u{1100}", "\u{1161}", "\u{11a8}", "\u{37e}", "\u{200f}", "\u{600}", "क्", "ष", "\u{2029}", "=", "_", "•",
];

fn telling_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PARTS), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn how_telling_text_is_cut_changes_nothing(text in telling_text(), markdown: bool, seed: u64) {
        holds(&text, if markdown { Markdown } else { Plain }, "en", seed)?;
        holds(&text, if markdown { Markdown } else { Plain }, "de", seed)?;
    }

    #[test]
    fn how_any_text_is_cut_changes_nothing(text in "\\PC{0,60}|(?s:.{0,60})", markdown: bool, seed: u64) {
        holds(&text, if markdown { Markdown } else { Plain }, "el", seed)?;
    }
}
