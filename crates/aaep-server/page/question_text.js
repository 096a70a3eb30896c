// The words of a question: all that a user needs to decide, in the order in which it is needed.

import { expose, warnings } from "./deception.js";
import { duration, phraseLanguage, t } from "./phrases.js";
import { agentName, pick, primaryLanguage } from "./texts.js";

/**
 * @typedef {import("./client/prompts.js").Prompt} Prompt
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./texts.js").LocalText} LocalText
 */

/** The most entries of the context of a question. */
const MAX_CONTEXT_ENTRIES = 8;

/** @param {Prompt} prompt @returns {number} The seconds that are left to answer. */
export function secondsLeft(prompt) {
  return Math.max(0, Math.round((prompt.deadline - performance.now()) / 1000));
}

/** @param {Prompt} prompt @param {Settings} settings @returns {LocalText} What is asked, with hidden characters exposed. */
export function askedText(prompt, settings) {
  const field = prompt.kind === "confirmation" ? "action" : "question";
  const found = pick(prompt.event, [field], settings) ?? { text: "", lang: primaryLanguage(prompt.event, settings) };
  return { text: expose(found.text), lang: found.lang };
}

/** @param {Prompt} prompt @returns {string} */
export function titleOf(prompt) {
  return t("page-asks", { agent: expose(agentName(prompt.event)) });
}

/** @param {Prompt} prompt @returns {boolean} Whether acceptance needs a second, deliberate step. */
export function needsSecondStep(prompt) {
  return prompt.kind === "confirmation" && isIrreversible(prompt) && prompt.event["risk_level"] === "high";
}

/** @param {Prompt} prompt @returns {boolean} */
function isIrreversible(prompt) {
  return prompt.event["irreversible"] === true || prompt.event["reversibility"] === "irreversible";
}

/**
 * Returns what is said after the question itself.
 * @param {Prompt} prompt @param {Settings} settings @returns {LocalText[]}
 */
export function detailsOf(prompt, settings) {
  const own = (/** @type {string} */ text) => ({ text, lang: phraseLanguage() });
  const texts = warningsOf(prompt, settings).map(own);
  texts.push(...(prompt.kind === "confirmation" ? confirmationDetails(prompt, settings) : clarificationDetails(prompt, settings)));
  texts.push(own(`${t("time-to-answer", { time: duration(secondsLeft(prompt)) })} ${withoutAnswer(prompt)}`));
  return texts;
}

/** @param {Prompt} prompt @param {Settings} settings @returns {LocalText[]} */
function confirmationDetails(prompt, settings) {
  const { event } = prompt;
  const consequence = pick(event, ["consequence"], settings);
  const asked = askedText(prompt, settings).text;
  const texts = [];
  if (consequence && expose(consequence.text) !== asked) texts.push({ text: expose(consequence.text), lang: consequence.lang });
  const nature = [undo(prompt), risk(event["risk_level"])].filter((id) => id !== undefined).map((id) => t(id));
  if (nature.length > 0) texts.push({ text: nature.join(" "), lang: phraseLanguage() });
  const context = Object.entries(event["extra_context"] ?? {})
    .filter(([, value]) => ["string", "number", "boolean"].includes(typeof value))
    .slice(0, settings.verbosity === "terse" ? 0 : MAX_CONTEXT_ENTRIES)
    .map(([name, value]) => t("context-entry", { name: expose(name.replaceAll("_", " ")), value: expose(String(value)) }));
  for (const text of context) texts.push({ text, lang: primaryLanguage(event, settings) });
  return texts;
}

/** @param {Prompt} prompt @param {Settings} settings @returns {LocalText[]} */
function clarificationDetails(prompt, settings) {
  const context = settings.verbosity === "terse" ? undefined : pick(prompt.event, ["context"], settings);
  return context ? [{ text: expose(context.text), lang: context.lang }] : [];
}

/** @param {Prompt} prompt @returns {string} What happens when time runs out. */
function withoutAnswer(prompt) {
  const { event } = prompt;
  if (prompt.kind === "confirmation") return t(event["default_decision"] === "accept" ? "default-accept" : "default-reject");
  const response = String(event["default_response"] ?? "").trim();
  if (response === "") return t("default-goes-on");
  /** @type {import("./client/messages.js").Choice[]} */
  const choices = event["choices"] ?? [];
  return t("default-response", { response: expose(choices.find(({ value }) => value === response)?.label ?? response) });
}

/** @param {Prompt} prompt @returns {string | undefined} */
function undo(prompt) {
  const { event } = prompt;
  if (isIrreversible(prompt)) return "undo-never";
  if (event["reversibility"] === "reversible_with_effort") return "undo-effort";
  return event["reversibility"] === "reversible" || event["irreversible"] === false ? "undo-easy" : undefined;
}

/** @param {any} level @returns {string | undefined} */
function risk(level) {
  return { low: "risk-low", medium: "risk-medium", high: "risk-high" }[String(level)];
}

/** @param {Prompt} prompt @param {Settings} settings @returns {string[]} */
function warningsOf(prompt, settings) {
  const { event } = prompt;
  const texts = ["action", "consequence", "question", "context", "default_response"].map((name) => event[name]);
  for (const { label, value } of event["choices"] ?? []) texts.push(label, value);
  for (const [name, value] of Object.entries(event["extra_context"] ?? {})) texts.push(name, value);
  texts.push(event.producer?.agent_name);
  for (const [name, value] of Object.entries(event)) if (/^(action|consequence|question)_/.test(name)) texts.push(value);
  return warnings(texts.filter((text) => typeof text === "string"), primaryLanguage(event, settings));
}

/**
 * Returns a whole question as one text, to be repeated.
 * @param {Prompt} prompt @param {Settings} settings @returns {string}
 */
export function wholeQuestion(prompt, settings) {
  const parts = [titleOf(prompt), askedText(prompt, settings).text, ...detailsOf(prompt, settings).map(({ text }) => text)];
  return parts.join(" ");
}

/**
 * Returns why a question was closed.
 * @param {Prompt} prompt @param {import("./client/prompts.js").Closing} how @returns {string}
 */
export function closedText(prompt, how) {
  if (how === "elsewhere") return t("answered-elsewhere");
  if (how === "timed_out") {
    if (prompt.kind === "clarification") return t("outcome-timed-out-goes-on");
    return t(prompt.event["default_decision"] === "accept" ? "outcome-timed-out-done" : "outcome-timed-out-not-done");
  }
  if (how === "withdrawn") return t("outcome-withdrawn");
  return t(how === "session" ? "page-over-session" : "page-over-connection");
}
