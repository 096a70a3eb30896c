//! Language-specific sentence rules: abbreviations, ordinals, words that start sentences.
//!
//! A full stop before a lower-case word never ends a sentence, so abbreviations such as `etc.` and `usw.` need no entry.

/// The tables of one language. Abbreviations are in lower case, without the last full stop.
#[derive(Debug)]
pub(super) struct SentenceRules {
    /// Words whose full stop never ends a sentence, such as titles before names.
    pub(super) never: &'static [&'static str],
    /// Words whose full stop does not end a sentence if a number follows: `No. 5`.
    pub(super) before_number: &'static [&'static str],
    /// Words whose full stop ends a sentence only if the next word is one of `starters`: `Inc.`
    pub(super) doubtful: &'static [&'static str],
    /// Words that start sentences but rarely names.
    pub(super) starters: &'static [&'static str],
    /// Whether `3.` means third.
    pub(super) ordinals: bool,
    /// Whether single lower-case letters are common words, so that a full stop after one ends a sentence.
    pub(super) letter_words: bool,
}

const NONE: SentenceRules =
    SentenceRules { never: &[], before_number: &[], doubtful: &[], starters: &[], ordinals: false, letter_words: true };

const ENGLISH: SentenceRules = SentenceRules {
    never: &[
        "mr", "mrs", "ms", "mx", "dr", "prof", "rev", "hon", "gen", "col", "lt", "sgt", "capt", "cmdr", "gov", "sen",
        "rep", "pres", "st", "mt", "ft", "messrs", "e.g", "eg", "i.e", "ie", "cf", "viz", "vs", "approx", "esp", "al",
        "dept", "univ", "assn", "a.k.a", "incl", "resp",
    ],
    before_number: &[
        "no", "nos", "vol", "vols", "p", "pp", "pg", "ch", "chap", "sec", "sect", "art", "fig", "figs", "eq", "eqs",
        "ref", "refs", "app", "tab", "ed", "ver", "rev", "ca", "c", "jan", "feb", "mar", "apr", "jun", "jul", "aug",
        "sep", "sept", "oct", "nov", "dec", "ext", "tel", "min", "max",
    ],
    doubtful: &[
        "inc", "ltd", "co", "corp", "bros", "jr", "sr", "esq", "ave", "blvd", "rd", "ph.d", "llc", "u.s", "u.k",
    ],
    starters: &[
        "the", "this", "that", "these", "those", "it", "its", "he", "she", "we", "they", "you", "his", "her", "our",
        "their", "your", "my", "in", "on", "at", "but", "and", "or", "if", "when", "while", "after", "before", "since",
        "because", "however", "then", "there", "here", "for", "from", "with", "what", "why", "how", "who", "where",
        "is", "are", "was", "do", "does", "did", "can", "could", "would", "should", "please", "also", "as", "so",
        "not", "no", "yes", "let", "now", "once", "both", "each", "every", "some", "many", "most", "all", "an", "to",
        "by",
    ],
    ordinals: false,
    letter_words: false,
};

const GERMAN: SentenceRules = SentenceRules {
    never: &[
        "hr", "fr", "dr", "prof", "dipl", "ing", "mag", "st", "z.b", "zb", "d.h", "dh", "u.a", "o.ä", "bzw", "vgl",
        "ca", "inkl", "exkl", "evtl", "ggf", "insb", "bspw", "sog", "zzgl", "i.d.r", "m.e", "u.u", "z.t", "geb",
        "gest", "allg", "max", "min", "ehem",
    ],
    before_number: &["nr", "nrn", "s", "bd", "kap", "abs", "art", "abb", "tab", "ziff", "jg", "tel", "anm", "aufl"],
    doubtful: &["str", "jh", "jhd", "mio", "mrd", "tsd", "std"],
    starters: &[
        "der", "die", "das", "dies", "diese", "dieser", "dieses", "es", "er", "sie", "wir", "ich", "ihr", "ein",
        "eine", "dann", "danach", "und", "aber", "oder", "wenn", "als", "in", "im", "am", "auf", "auch", "dort",
        "hier", "jetzt", "bitte", "nun", "was", "wer", "wie", "wo", "warum", "man", "so", "doch", "nach", "bei", "mit",
        "seitdem",
    ],
    ordinals: true,
    letter_words: false,
};

const FRENCH: SentenceRules = SentenceRules {
    never: &[
        "m", "mm", "mme", "mmes", "mlle", "mlles", "dr", "pr", "me", "mgr", "st", "ste", "cf", "ex", "p.ex", "env",
        "c.-à-d", "av", "apr", "vs",
    ],
    before_number: &["n", "no", "p", "pp", "vol", "chap", "art", "fig", "t", "tél", "éd", "ch"],
    doubtful: &["bd", "boul", "cie", "j.-c"],
    starters: &[
        "le", "la", "les", "il", "elle", "ils", "elles", "ce", "cette", "ces", "un", "une", "nous", "vous", "on", "et",
        "mais", "puis", "je", "tu", "en", "dans", "pour", "si", "quand", "ensuite", "cela",
    ],
    ordinals: false,
    letter_words: false,
};

const SPANISH: SentenceRules = SentenceRules {
    never: &[
        "sr", "sra", "srta", "sres", "sras", "dr", "dra", "dres", "d", "dña", "prof", "profa", "lic", "ing", "arq",
        "p", "ej", "p.ej", "vd", "ud", "uds", "vds", "gral", "cnel", "excmo", "ilmo", "fr", "sto", "sta", "cf",
        "aprox", "av", "avda", "c", "pza",
    ],
    before_number: &["núm", "no", "n", "pág", "págs", "vol", "cap", "art", "fig", "tel", "ed"],
    doubtful: &["ee", "uu", "ee.uu", "cía", "s.a", "a.c", "d.c", "depto"],
    starters: &[
        "el", "la", "los", "las", "él", "ella", "ellos", "ellas", "es", "este", "esta", "esto", "estos", "estas", "un",
        "una", "en", "pero", "si", "cuando", "luego", "después", "yo", "tú", "nosotros", "se", "no", "por", "para",
    ],
    ordinals: false,
    letter_words: false,
};

const PORTUGUESE: SentenceRules = SentenceRules {
    never: &[
        "sr", "sra", "srta", "srs", "sras", "dr", "dra", "prof", "profa", "eng", "exmo", "exma", "d", "v", "p.ex",
        "ex", "av", "r", "sto", "sta", "cf", "aprox",
    ],
    before_number: &["n", "nº", "no", "pág", "págs", "p", "pp", "vol", "cap", "art", "fig", "tel", "ed"],
    doubtful: &["ltda", "cia", "s.a", "a.c", "d.c", "e.u.a"],
    starters: &[
        "os", "as", "ele", "ela", "eles", "elas", "este", "esta", "isto", "isso", "um", "uma", "em", "no", "na", "mas",
        "se", "quando", "depois", "eu", "nós", "você", "por", "para", "não",
    ],
    ordinals: false,
    letter_words: false,
};

const ITALIAN: SentenceRules = SentenceRules {
    never: &[
        "sig", "sigg", "sig.ra", "sig.na", "dott", "dott.ssa", "dr", "prof", "prof.ssa", "ing", "avv", "arch", "geom",
        "on", "rag", "egr", "gent", "spett", "p.es", "es", "cfr", "ca", "v", "s",
    ],
    before_number: &["n", "nr", "pag", "pagg", "p", "pp", "vol", "cap", "art", "fig", "tel", "ed"],
    doubtful: &["s.p.a", "s.r.l", "a.c", "d.c", "f.lli"],
    starters: &[
        "il", "lo", "la", "gli", "le", "un", "una", "lui", "lei", "loro", "questo", "questa", "in", "nel", "ma", "se",
        "quando", "poi", "io", "noi", "voi", "non", "per",
    ],
    ordinals: false,
    letter_words: false,
};

const DUTCH: SentenceRules = SentenceRules {
    never: &[
        "dhr", "mevr", "mw", "mr", "dr", "drs", "ir", "ing", "prof", "bijv", "bv", "b.v", "d.w.z", "o.a", "m.b.t",
        "t.a.v", "i.p.v", "ca", "incl", "excl", "evt", "resp", "vgl", "st", "zgn",
    ],
    before_number: &["nr", "nrs", "blz", "p", "pp", "dl", "hfst", "art", "fig", "afb", "tel", "jg"],
    doubtful: &["n.v", "v.chr", "n.chr", "jr", "sr"],
    starters: &[
        "de", "het", "een", "hij", "zij", "ze", "wij", "we", "ik", "dit", "dat", "deze", "die", "er", "in", "op",
        "maar", "en", "als", "toen", "dan", "daarna", "nu", "wat", "hoe", "dus",
    ],
    ordinals: false,
    letter_words: false,
};

const RUSSIAN: SentenceRules = SentenceRules {
    never: &[
        "г-н",
        "г-жа",
        "гр",
        "проф",
        "акад",
        "доц",
        "им",
        "ул",
        "пр",
        "просп",
        "пер",
        "пл",
        "обл",
        "р-н",
        "пос",
        "т.е",
        "т.к",
        "т.н",
        "напр",
        "см",
        "ср",
        "св",
        "тов",
        "ок",
        "в.о",
    ],
    before_number: &["стр", "с", "рис", "табл", "гл", "ст", "п", "пп", "т", "д", "кв", "корп", "тел", "вып", "изд"],
    doubtful: &["руб", "коп", "тыс", "млн", "млрд", "гг", "вв", "н.э", "т.д", "т.п"],
    starters: &[
        "он",
        "она",
        "оно",
        "они",
        "мы",
        "вы",
        "ты",
        "это",
        "этот",
        "эта",
        "эти",
        "но",
        "если",
        "когда",
        "потом",
        "затем",
        "там",
        "здесь",
        "теперь",
        "сейчас",
        "также",
        "после",
        "для",
        "на",
        "по",
        "все",
        "так",
        "как",
        "что",
    ],
    ordinals: false,
    letter_words: false,
};

const POLISH: SentenceRules = SentenceRules {
    never: &[
        "np", "tj", "tzn", "m.in", "tzw", "prof", "dr", "hab", "inż", "mgr", "św", "ul", "al", "pl", "os", "gen",
        "płk", "por", "ks", "ok", "ur", "zm", "im", "wg", "ds", "pt",
    ],
    before_number: &["nr", "s", "str", "t", "rozdz", "rys", "tab", "art", "ust", "pkt", "tel", "poz", "wyd"],
    doubtful: &["r", "w", "godz", "zł", "tys", "mln", "mld", "n.e", "p.n.e"],
    starters: &[
        "to",
        "ten",
        "ta",
        "te",
        "on",
        "ona",
        "ono",
        "oni",
        "my",
        "wy",
        "ale",
        "jeśli",
        "gdy",
        "kiedy",
        "potem",
        "następnie",
        "teraz",
        "tam",
        "tutaj",
        "po",
        "na",
        "jest",
        "nie",
        "czy",
        "wtedy",
    ],
    ordinals: true,
    letter_words: false,
};

const TURKISH: SentenceRules = SentenceRules {
    never: &[
        "dr", "prof", "doç", "yrd", "öğr", "av", "sn", "bkz", "vb", "vs", "örn", "hz", "st", "müh", "alb", "gen",
        "mah", "cad", "sok", "çev", "haz", "yak",
    ],
    before_number: &["no", "s", "sf", "cilt", "c", "böl", "md", "tel", "şek", "tab"],
    doubtful: &["ltd", "şti", "a.ş", "m.ö", "m.s", "apt"],
    starters: &[
        "bu", "şu", "biz", "siz", "ben", "sen", "onlar", "bir", "ama", "ancak", "eğer", "sonra", "şimdi", "ve",
        "çünkü", "burada", "orada", "daha",
    ],
    ordinals: true,
    letter_words: false,
};

const GREEK: SentenceRules = SentenceRules {
    never: &["κ", "κα", "κος", "κκ", "δρ", "π.χ", "δηλ", "βλ", "πρβλ", "αγ", "λ.χ", "οδ"],
    before_number: &["αρ", "αριθ", "σ", "σελ", "τ", "τόμ", "κεφ", "εικ", "τηλ", "άρθ"],
    doubtful: &["α.ε", "π.χρ", "μ.χ", "χλμ"],
    starters: &["το", "οι", "τα", "αυτό", "αυτός", "αυτή", "αλλά", "αν", "όταν", "μετά", "εδώ", "εκεί", "και", "ένα"],
    ordinals: false,
    letter_words: false,
};

/// Hindi and related languages end sentences with a danda; initials are spelled out.
const HINDI: SentenceRules = SentenceRules {
    never: &[
        "डॉ",
        "डा",
        "श्री",
        "श्रीमती",
        "सुश्री",
        "पं",
        "प्रो",
        "ए",
        "बी",
        "सी",
        "डी",
        "एफ",
        "एच",
        "जे",
        "के",
        "एल",
        "एम",
        "एन",
        "पी",
        "आर",
        "एस",
        "टी",
        "वी",
        "ডা",
        "ড",
        "মো",
        "प्रा",
    ],
    before_number: &["सं", "पृ", "रु", "क्र", "নং"],
    ..NONE
};

const ARABIC: SentenceRules =
    SentenceRules { never: &["د", "أ", "أ.د", "م", "ق.م"], before_number: &["ص", "ج", "ت"], ..NONE };

/// Languages for which the only rule is that `3.` means third.
const ORDINALS_ONLY: SentenceRules = SentenceRules { ordinals: true, letter_words: false, ..NONE };

pub(super) fn of(primary: &str) -> &'static SentenceRules {
    match primary.to_ascii_lowercase().as_str() {
        "en" => &ENGLISH,
        "de" | "gsw" | "lb" => &GERMAN,
        "fr" => &FRENCH,
        "es" | "ca" | "gl" => &SPANISH,
        "pt" => &PORTUGUESE,
        "it" => &ITALIAN,
        "nl" => &DUTCH,
        "ru" | "uk" | "be" => &RUSSIAN,
        "pl" => &POLISH,
        "tr" => &TURKISH,
        "el" => &GREEK,
        "hi" | "mr" | "ne" | "bn" => &HINDI,
        "ar" => &ARABIC,
        "cs" | "sk" | "sl" | "hr" | "sr" | "bs" | "da" | "nb" | "nn" | "no" | "fi" | "et" | "hu" | "is" | "lv" => {
            &ORDINALS_ONLY
        }
        _ => &NONE,
    }
}
