// The phrases of the page in the language of the user. They come from the same sources as the announcements of `aaep listen`.

/**
 * A phrase: a text, or parts. A part is a text, the name of a variable in an array, or forms by the plural category of a
 * variable.
 * @typedef {string | Part[]} Pattern
 * @typedef {string | [string] | [string, Record<string, Pattern>]} Part
 */

/** @type {Record<string, Pattern>} */
let table = {};
let language = "en";
let plurals = new Intl.PluralRules("en");

/** The languages that there are phrases in. */
export const LANGUAGES = ["en", "es", "fr", "de", "ar", "yo"];

/**
 * Loads the phrases in the first of these languages that there is, or in English.
 * @param {readonly string[]} wanted
 */
export async function loadPhrases(wanted) {
  const found = wanted.map((tag) => tag.split("-")[0]?.toLowerCase() ?? "").find((tag) => LANGUAGES.includes(tag));
  language = found ?? "en";
  plurals = new Intl.PluralRules(language);
  table = (await import(`./generated/phrases_${language}.js`)).phrases;
}

/** @returns {string} The language of the phrases. */
export function phraseLanguage() {
  return language;
}

/** @param {string} tag @returns {"rtl" | "ltr" | "auto"} The direction of a language, or `auto` if it is not known. */
export function directionOf(tag) {
  const primary = tag.split("-")[0]?.toLowerCase() ?? "";
  if (["ar", "he", "fa", "ur", "yi", "ps", "sd", "ug", "dv", "ckb"].includes(primary)) return "rtl";
  return primary === "" ? "auto" : "ltr";
}

/**
 * Returns a phrase.
 * @param {string} id @param {Record<string, string | number>} [values] @returns {string}
 */
export function t(id, values = {}) {
  const pattern = table[id];
  // A test proves that every id that the page uses exists.
  return pattern === undefined ? id : format(pattern, values);
}

/** @param {Pattern} pattern @param {Record<string, string | number>} values @returns {string} */
function format(pattern, values) {
  if (typeof pattern === "string") return pattern;
  return pattern.map((part) => formatPart(part, values)).join("");
}

/** @param {Part} part @param {Record<string, string | number>} values @returns {string} */
function formatPart(part, values) {
  if (typeof part === "string") return part;
  const [name, forms] = part;
  const value = values[name] ?? "";
  if (forms === undefined) return String(value);
  const form = forms[String(value)] ?? forms[plurals.select(Number(value))] ?? forms["other"] ?? "";
  return format(form, values);
}

/** @param {number} seconds @returns {string} A length of time in the largest units that matter, rounded down. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole === 60) return t("minutes", { count: 1 });
  if (whole < 120) return t("seconds", { count: whole });
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return t("minutes", { count: minutes });
  const hours = t("hours", { count: Math.floor(minutes / 60) });
  return minutes % 60 === 0 ? hours : `${hours} ${t("minutes", { count: minutes % 60 })}`;
}
