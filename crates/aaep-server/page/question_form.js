// The form of a clarification: a text, a number, a choice, yes or no.

import { expose } from "./deception.js";
import { el, labelled, newId } from "./dom.js";
import { t } from "./phrases.js";

/**
 * @typedef {import("./client/prompts.js").Prompt} Prompt
 * @typedef {import("./client/messages.js").Choice} Choice
 */

/**
 * @typedef {object} AnswerForm
 * @property {HTMLElement} fields
 * @property {HTMLElement} first The element that gets the focus.
 * @property {() => {response: string | number | boolean, words: string} | {problem: string, at: HTMLElement}} read
 */

/** @param {Prompt} prompt @returns {string[]} The kinds of answers that are accepted. */
export function acceptedKinds(prompt) {
  /** @type {string[]} */
  const kinds = prompt.event["accepted_response_kinds"] ?? [];
  if (kinds.length > 0) return kinds;
  return prompt.event["choices"] ? ["multiple_choice"] : ["freetext"];
}

/** @param {Prompt} prompt @returns {AnswerForm} */
export function answerForm(prompt) {
  const kinds = acceptedKinds(prompt);
  /** @type {Choice[]} */
  const choices = kinds.includes("multiple_choice") ? (prompt.event["choices"] ?? []) : [];
  const options = choices.map(({ value, label }) => ({ response: /** @type {string | boolean} */ (value), words: expose(label) }));
  if (kinds.includes("yes_no")) {
    options.push({ response: true, words: t("page-option-yes") }, { response: false, words: t("page-option-no") });
  }
  if (options.length > 0) return choiceForm(options);
  return kinds.includes("numeric") && !kinds.includes("freetext") ? numberForm() : textForm(kinds.includes("numeric"));
}

/** @param {{response: string | boolean, words: string}[]} options @returns {AnswerForm} */
function choiceForm(options) {
  const name = newId("choice");
  const inputs = options.map((_, i) => el("input", { type: "radio", name, value: i, id: `${name}-${i}` }));
  const rows = options.map(({ words }, i) =>
    el("div", { class: "option" }, /** @type {HTMLElement} */ (inputs[i]), el("label", { for: `${name}-${i}` }, words)));
  const fields = el("fieldset", {}, el("legend", {}, t("page-choose")), ...rows);
  const first = /** @type {HTMLElement} */ (inputs[0]);
  return {
    fields,
    first,
    read() {
      const chosen = options[inputs.findIndex((input) => input.checked)];
      return chosen ?? { problem: t("page-nothing-chosen"), at: first };
    },
  };
}

/** @returns {AnswerForm} */
function numberForm() {
  const input = el("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  return {
    fields: labelled(t("page-your-number"), input),
    first: input,
    read() {
      const words = input.value.trim();
      const number = Number(words.replace(/^([+-]?\d+),(\d+)$/, "$1.$2"));
      if (words === "" || !Number.isFinite(number)) return { problem: t("takes-no-such-number"), at: input };
      return { response: number, words };
    },
  };
}

/** @param {boolean} takesNumbers @returns {AnswerForm} */
function textForm(takesNumbers) {
  const input = el("input", { type: "text", autocomplete: "off", maxlength: 4096 });
  return {
    fields: labelled(t("page-your-answer"), input),
    first: input,
    read() {
      const words = input.value.trim();
      if (words === "") return { problem: t("page-nothing-typed"), at: input };
      const isNumber = takesNumbers && Number.isFinite(Number(words));
      return { response: isNumber ? Number(words) : words, words };
    },
  };
}
