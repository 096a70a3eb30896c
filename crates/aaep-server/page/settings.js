// What the user has set. It is kept in this browser; the token is not among it.

/**
 * @typedef {object} Settings
 * @property {"terse" | "normal" | "detailed"} verbosity
 * @property {"low" | "medium" | "high"} load How much at once.
 * @property {number} pace Words per minute.
 * @property {string[]} languages In order of preference.
 * @property {{text: boolean, tools: boolean, states: boolean}} announced Which kinds of events are announced. Questions,
 *   failures and results always are.
 * @property {"automatic" | "live_region" | "off"} announcing How announcements reach a screen reader.
 * @property {boolean} voice Whether the voice of the browser speaks.
 * @property {boolean} sounds Whether a question has a sound.
 * @property {number} timeFactor By how much the time to answer is multiplied.
 * @property {number} captionSize In percent.
 */

const KEY = "aaep-page-settings";

/** @returns {Settings} */
function defaults() {
  return {
    verbosity: "normal",
    load: "medium",
    pace: 220,
    languages: [...new Set(navigator.languages.length > 0 ? navigator.languages : ["en"])].slice(0, 8),
    announced: { text: true, tools: true, states: true },
    announcing: "automatic",
    voice: false,
    sounds: false,
    timeFactor: 1,
    captionSize: 300,
  };
}

/** @returns {Settings} What was kept, as far as it makes sense. */
export function loadSettings() {
  const settings = defaults();
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return merge(settings, kept);
  } catch {
    return settings;
  }
}

/** @param {Settings} settings @param {any} kept @returns {Settings} */
function merge(settings, kept) {
  /** @template T @param {readonly T[]} allowed @param {any} value @param {T} otherwise @returns {T} */
  const oneOf = (allowed, value, otherwise) => (allowed.includes(value) ? value : otherwise);
  const languages = Array.isArray(kept.languages) ? kept.languages.filter(isTag).slice(0, 8) : settings.languages;
  return {
    verbosity: oneOf(["terse", "normal", "detailed"], kept.verbosity, settings.verbosity),
    load: oneOf(["low", "medium", "high"], kept.load, settings.load),
    pace: clamp(kept.pace, 60, 600, settings.pace),
    languages: languages.length > 0 ? languages : settings.languages,
    announced: {
      text: kept.announced?.text ?? true,
      tools: kept.announced?.tools ?? true,
      states: kept.announced?.states ?? true,
    },
    announcing: oneOf(["automatic", "live_region", "off"], kept.announcing, settings.announcing),
    voice: kept.voice === true,
    sounds: kept.sounds === true,
    timeFactor: clamp(kept.timeFactor, 1, 10, settings.timeFactor),
    captionSize: clamp(kept.captionSize, 100, 800, settings.captionSize),
  };
}

/** @param {any} value @param {number} least @param {number} most @param {number} otherwise @returns {number} */
export function clamp(value, least, most, otherwise) {
  const number = Number(value);
  return Number.isFinite(number) && value !== "" && value !== undefined ? Math.min(Math.max(Math.round(number), least), most) : otherwise;
}

/** @param {any} tag @returns {boolean} Whether a text is a language tag. */
export function isTag(tag) {
  return typeof tag === "string" && /^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$/.test(tag);
}

/** @param {Settings} settings */
export function saveSettings(settings) {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Without storage the settings last as long as the page.
  }
}

/** @param {Settings} settings @returns {Record<string, any>} The capabilities to ask for. */
export function capabilitiesFor(settings) {
  /** @type {Record<string, any>} */
  const capabilities = {
    preferred_verbosity: settings.verbosity,
    languages: settings.languages,
    supports_confirmation_reply: true,
    supports_clarification_reply: true,
    coalesce_boundaries: ["sentence", "completion"],
    cognitive_load: settings.load,
    supported_conformance_levels: [1, 2, 3],
    cancellation: {},
  };
  if (settings.timeFactor > 1) {
    capabilities["supported_extensions"] = ["urn:aaep:extension:more-time:1"];
    capabilities["more_time"] = { factor: settings.timeFactor };
  }
  return capabilities;
}
