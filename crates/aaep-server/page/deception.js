// Finds characters that may mislead a user about a text, and describes them in words. The rules are those of the validator:
// a test compares both over a corpus.

import { lookAlikes } from "./generated/look_alikes.js";
import { t } from "./phrases.js";

/**
 * @typedef {{kind: "hidden" | "direction", at: number, char: string}} Suspect
 * @typedef {{kind: "look-alike", word: string}} LookAlike
 * @typedef {Suspect | LookAlike} Deception
 */

const RIGHT_TO_LEFT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;
const LETTER = /\p{Alphabetic}/u;
const ALWAYS_HIDDEN = /[\u034F\u115F\u1160\u17B4\u17B5\u180E\u2028\u2029\u2060-\u2065\u206A-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/u;
const JOINS = /[\u0600-\u1CFF\u2190-\u2BFF\uFE0F\u{1F000}-\u{1FAFF}]/u;
const BREAKS_WITHOUT_SPACE = /[\u0E01-\u0EFF\u1000-\u109F\u1780-\u17FF]/u;
const TAKES_VARIATION = /[\u00A9\u00AE\u1000-\u109F\u2010-\u2027\u2030-\u205E\u20A0-\u2BFF\u3001-\u9FFF\uA840-\uA87F\uF900-\uFAFF\u{10000}-\u{3FFFF}]/u;
const IDEOGRAPH = /[\u3400-\u9FFF\uF900-\uFAFF\u{20000}-\u{3FFFF}]/u;
const REGION_TAGS = /^[\u{E0030}-\u{E0039}\u{E0061}-\u{E007A}]{1,6}\u{E007F}/u;

/** The most places that are described. After that, hidden characters are removed. */
const MAX_EXPOSED = 16;

/** The most warnings about one question. */
const MAX_WARNINGS = 3;

/** @param {string} text @returns {boolean} */
function isPlain(text) {
  return /^[\x20-\x7E]*$/.test(text);
}

/** @param {string} c @param {{last: string, base: string, joiners: number}} before @param {string} next @returns {boolean} */
function isHidden(c, before, next) {
  if (c === "\t" || c === "\n" || c === "\r") return false;
  if (c === "\u200C" || c === "\u200D") return !JOINS.test(before.base) || before.joiners >= 2;
  if (c === "\u200B") return !BREAKS_WITHOUT_SPACE.test(before.last);
  if (c === "\u00AD") return !LETTER.test(before.last) || !LETTER.test(next);
  if ((c === "\uFE0E" || c === "\uFE0F") && /[0-9#*]/.test(before.last)) return false;
  if (c >= "\uFE00" && c <= "\uFE0F") return !TAKES_VARIATION.test(before.last);
  if (/[\u{E0100}-\u{E01EF}]/u.test(c)) return !IDEOGRAPH.test(before.last);
  if (/[\u180B-\u180D\u180F]/.test(c)) return !/[\u1820-\u18AA]/.test(before.last);
  return ALWAYS_HIDDEN.test(c) || /\p{Cc}/u.test(c);
}

/** @param {string} text @returns {Suspect[]} */
function suspects(text) {
  const isRightToLeft = [...text].some((c) => RIGHT_TO_LEFT.test(c) && LETTER.test(c));
  /** @type {Suspect[]} */
  const found = [];
  /** @type {{at: number, char: string}[]} */
  const isolates = [];
  let before = { last: " ", base: " ", joiners: 0 };
  let at = 0;
  while (at < text.length) {
    const c = String.fromCodePoint(text.codePointAt(at) ?? 0);
    const after = text.slice(at + c.length, at + c.length + 16);
    const next = after === "" ? " " : String.fromCodePoint(after.codePointAt(0) ?? 32);
    let width = c.length;
    if (isRightToLeft && /[\u2066-\u2068]/.test(c)) isolates.push({ at, char: c });
    else if (isRightToLeft && c === "\u2069" && isolates.pop()) width = c.length;
    else if (/[\u202A-\u202E\u2066-\u2069]/.test(c)) found.push({ kind: "direction", at, char: c });
    else if (!isRightToLeft && /[\u200E\u200F\u061C]/.test(c)) found.push({ kind: "direction", at, char: c });
    else if (c === "\u{1F3F4}") width += REGION_TAGS.exec(after)?.[0].length ?? 0;
    else if (isHidden(c, before, next)) found.push({ kind: "hidden", at, char: c });
    const joins = c === "\u200C" || c === "\u200D";
    before = joins ? { ...before, last: c, joiners: before.joiners + 1 } : { last: c, base: c, joiners: 0 };
    at += width;
  }
  for (const isolate of isolates.reverse()) found.push({ kind: "direction", ...isolate });
  return found;
}

/** @param {string} c @returns {string | undefined} The script of a letter, of those that can be mistaken for Latin. */
function scriptOf(c) {
  if (/[A-Za-z\u00C0-\u024F\u1E00-\u1EFF]/.test(c)) return LETTER.test(c) ? "latin" : undefined;
  if (/[\u0370-\u03FF\u1F00-\u1FFF]/.test(c)) return "greek";
  if (/[\u0400-\u052F\u1C80-\u1C8F\uA640-\uA69F]/.test(c)) return "cyrillic";
  if (/[\u0531-\u0589]/.test(c)) return "armenian";
  return /[\u13A0-\u13FF\uAB70-\uABBF]/.test(c) ? "cherokee" : undefined;
}

/** @param {string} tag @returns {string | undefined} */
function scriptOfLanguage(tag) {
  const [language = "", ...rest] = tag.toLowerCase().split(/[-_]/);
  const script = rest.find((part) => part === "cyrl" || part === "latn");
  if (script) return script === "cyrl" ? "cyrillic" : undefined;
  const cyrillic = "ru uk be bg sr mk kk ky tg mn tt ba cv ce os ab av rue sah udm cu".split(" ");
  if (cyrillic.includes(language)) return "cyrillic";
  if (language === "el" || language === "grc") return "greek";
  if (language === "hy" || language === "hyw") return "armenian";
  return language === "chr" ? "cherokee" : undefined;
}

/** @param {string} text */
function describeWord(text) {
  let [latin, foreign, alike, letters] = [false, /** @type {string | undefined} */ (undefined), true, 0];
  for (const c of text) {
    if (LETTER.test(c)) letters += 1;
    const script = scriptOf(c);
    if (script === "latin") latin = true;
    else if (script !== undefined) {
      foreign = script;
      alike &&= lookAlikes.includes(c);
    }
  }
  return { text, latin, foreign, alike, letters };
}

/** @param {string} text @param {string} language @returns {string | undefined} */
function lookAlikeWord(text, language) {
  const words = text.split(/[^\p{Alphabetic}\p{N}\u0300-\u036F]+/u).filter((word) => word !== "").map(describeWord);
  const mixed = words.find((word) => word.latin && word.foreign !== undefined && word.alike);
  if (mixed) return mixed.text;
  if (!words.some((word) => word.latin)) return undefined;
  const native = scriptOfLanguage(language);
  const whole = words.find((word) => !word.latin && word.alike && word.letters >= 3 && word.foreign !== undefined && word.foreign !== native);
  return whole?.text;
}

/**
 * Returns the first deceptive character or word.
 * @param {string} text @param {string} language @returns {Deception | undefined}
 */
export function findDeception(text, language) {
  if (isPlain(text)) return undefined;
  const [first] = suspects(text);
  if (first) return first;
  const word = lookAlikeWord(text, language);
  return word === undefined ? undefined : { kind: "look-alike", word };
}

/** @param {string} c @returns {string} */
function codeOf(c) {
  return `U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Replaces hidden and reordering characters by a description. @param {string} text @returns {string} */
export function expose(text) {
  if (isPlain(text)) return text;
  const found = suspects(text).sort((a, b) => a.at - b.at);
  let [exposed, handed, places] = ["", 0, 0];
  for (let i = 0; i < found.length; ) {
    const first = /** @type {Suspect} */ (found[i]);
    let [end, count] = [first.at + first.char.length, 1];
    while (found[i + count]?.at === end) {
      end += found[i + count]?.char.length ?? 0;
      count += 1;
    }
    exposed += text.slice(handed, first.at);
    handed = end;
    i += count;
    places += 1;
    if (places > MAX_EXPOSED) continue;
    const name = first.kind === "direction" ? "direction control" : "hidden character";
    exposed += count === 1 ? `[${name} ${codeOf(first.char)}]` : `[${count} hidden characters]`;
  }
  return exposed + text.slice(handed);
}

/** @param {Deception} found @returns {string} The deception in words, in the language of the user. */
function inWords(found) {
  if (found.kind !== "look-alike") {
    return t(found.kind === "hidden" ? "hidden-character" : "direction-character", { code: codeOf(found.char) });
  }
  const isStrange = (/** @type {string} */ c) => LETTER.test(c) && !/[\x00-\x7F\u00C0-\u024F\u1E00-\u1EFF]/.test(c);
  const letters = [...found.word].map((c, i) => ({ c, i })).filter(({ c }) => isStrange(c)).slice(0, 4);
  const named = letters.map(({ c, i }) => t("letter", { number: i + 1, code: codeOf(c) }));
  return t("look-alike", { word: [...found.word].slice(0, 40).join(""), letters: named.join(", ") });
}

/**
 * Returns warnings about the texts of a question.
 * @param {string[]} texts @param {string} language @returns {string[]}
 */
export function warnings(texts, language) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const text of texts) {
    let rest = text;
    for (let next = findDeception(rest, language); next; next = findDeception(rest, language)) {
      found.add(inWords(next));
      if (found.size >= MAX_WARNINGS) return [...found];
      rest = rest.replaceAll(next.kind === "look-alike" ? next.word : next.char, "");
    }
  }
  return [...found];
}
