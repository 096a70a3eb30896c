// Selects the texts of an event: first by the user's languages, then by verbosity.

import { directionOf, t } from "./phrases.js";

/**
 * @typedef {import("./client/messages.js").AaepEvent} AaepEvent
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {{text: string, lang: string}} LocalText
 */

/** @param {AaepEvent} event @param {Settings} settings @returns {string} */
export function primaryLanguage(event, settings) {
  return String(event["localization_hints"]?.primary_language ?? settings.languages[0] ?? "en");
}

/** @param {AaepEvent} event @param {Settings} settings @returns {LocalText | undefined} The summary that suits the user. */
export function summary(event, settings) {
  const [terse, normal, detailed] = ["summary_terse", "summary_normal", "summary_detailed"];
  if (settings.load === "low" || settings.verbosity === "terse") return pick(event, [terse, normal, detailed], settings);
  if (settings.verbosity === "detailed") return pick(event, [detailed, normal, terse], settings);
  return pick(event, [normal, terse, detailed], settings);
}

/**
 * Returns the first of these fields that there is, in the language that suits the user.
 * @param {AaepEvent} event @param {(string | undefined)[]} names @param {Settings} settings @returns {LocalText | undefined}
 */
export function pick(event, names, settings) {
  const primary = primaryLanguage(event, settings);
  const wanted = [...settings.languages, ...(event["localization_hints"]?.fallback_chain ?? [])].map(String);
  /** @type {(LocalText & {rank: number}) | undefined} */
  let best;
  for (const name of names) {
    const value = name === undefined ? undefined : event[name];
    if (typeof value !== "string" || value.trim() === "") continue;
    const found = variant(event, String(name), wanted, primary) ?? { text: value, lang: primary, rank: Infinity };
    if (best === undefined || found.rank < best.rank) best = found;
  }
  return best && { text: best.text, lang: best.lang };
}

/**
 * @param {AaepEvent} event @param {string} name @param {string[]} wanted @param {string} primary
 * @returns {(LocalText & {rank: number}) | undefined}
 */
function variant(event, name, wanted, primary) {
  const others = Object.keys(event).filter((key) => key.startsWith(`${name}_`) && /^[a-z]{2,3}(_|$)/.test(key.slice(name.length + 1)));
  for (const [rank, tag] of wanted.entries()) {
    if (sameLanguage(tag, primary)) return { text: String(event[name]), lang: primary, rank };
    const key = others.find((other) => sameLanguage(tag, languageOf(other, name)));
    const text = key === undefined ? undefined : event[key];
    if (key !== undefined && typeof text === "string" && text.trim() !== "") {
      return { text, lang: languageOf(key, name), rank };
    }
  }
  return undefined;
}

/** @param {string} key @param {string} name @returns {string} The language that a field name ends in. */
function languageOf(key, name) {
  return key.slice(name.length + 1).replaceAll("_", "-");
}

/** @param {string} a @param {string} b @returns {boolean} */
function sameLanguage(a, b) {
  return a.split("-")[0]?.toLowerCase() === b.split("-")[0]?.toLowerCase();
}

/** @param {AaepEvent} event @returns {string} The name of the agent, as it is shown. */
export function agentName(event) {
  const { agent_name: name, agent_id: id } = event.producer ?? {};
  return String(name ?? id ?? "").trim() || t("agent-unknown");
}

/** @param {string} lang @returns {{lang: string, dir: string}} The attributes of an element with a text in this language. */
export function languageAttributes(lang) {
  return { lang, dir: directionOf(lang) };
}
