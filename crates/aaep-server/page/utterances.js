// Events become utterances: whole sentences, few of them, in the words of `aaep listen`.

import { isTerminal, kindOf } from "./client/index.js";
import { expose } from "./deception.js";
import { t } from "./phrases.js";
import { OutputText } from "./speakable.js";
import { agentName, pick, primaryLanguage, summary } from "./texts.js";

/**
 * @typedef {import("./client/messages.js").AaepEvent} AaepEvent
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./texts.js").LocalText} LocalText
 */

/**
 * @typedef {object} Utterance
 * @property {string} text
 * @property {string} lang
 * @property {boolean} isUrgent
 */

/** How many tool calls in a row are announced one by one. */
const MAX_SINGLE_CALLS = 2;

/** The most outputs whose text is kept. */
const MAX_OUTPUTS = 64;

export class Utterances {
  /** @type {Map<string, OutputText>} */
  #outputs = new Map();
  /** The last announcement about each session. @type {Map<string, string>} */
  #last = new Map();
  /** The tool calls in a row of each session. @type {Map<string, {count: number, failed: number}>} */
  #runs = new Map();
  /** The agents at work. @type {Map<string, string>} */
  #agents = new Map();

  /** @param {AaepEvent} event @param {Settings} settings @returns {Utterance[]} */
  of(event, settings) {
    this.#agents.set(event.session_id, event.producer?.agent_id ?? "");
    if (this.#agents.size > 64) this.#agents.delete([...this.#agents.keys()][0] ?? "");
    const said = [...this.#sumUpTools(event), ...this.#texts(event, settings)];
    const named = this.#severalAgents() ? said.map((one, i) => (i === 0 ? withAgent(one, event) : one)) : said;
    if (isTerminal(event)) {
      this.#agents.delete(event.session_id);
      this.#runs.delete(event.session_id);
    }
    return named.filter((one) => one.text !== "" && this.#isNew(event, one.text)).map((one) => ({ ...one, text: expose(one.text) }));
  }

  /** @returns {boolean} */
  #severalAgents() {
    return new Set(this.#agents.values()).size > 1;
  }

  /** @param {AaepEvent} event @param {string} text @returns {boolean} */
  #isNew(event, text) {
    if (kindOf(event) === "output.streaming") return true;
    if (this.#last.get(event.session_id) === text) return false;
    this.#last.delete(event.session_id);
    this.#last.set(event.session_id, text);
    if (this.#last.size > 256) this.#last.delete([...this.#last.keys()][0] ?? "");
    return true;
  }

  /** @param {AaepEvent} event @param {Settings} settings @returns {Utterance[]} */
  #texts(event, settings) {
    const own = summary(event, settings);
    switch (kindOf(event)) {
      case "session.started":
        return polite(own);
      case "session.completed":
        return polite({ text: own && this.#last.get(event.session_id) !== own.text ? `${t("done")} ${own.text}` : t("done"), lang: own?.lang ?? "" });
      case "session.errored":
        return this.#failure(event, settings, own);
      case "session.cancelled":
        return polite({ text: `${t(cancelledBy(event))} ${own?.text ?? ""}`.trim(), lang: own?.lang ?? "" });
      case "handoff.requested":
        return polite({ text: handoff(event, settings), lang: own?.lang ?? "" });
      case "state.changed":
        return this.#state(event, settings, own);
      case "progress.updated":
        return this.#progress(event, settings, own);
      case "tool.invoked":
        return this.#toolInvoked(event, settings, own);
      case "tool.completed":
        return this.#toolCompleted(event, settings, own);
      case "output.streaming":
        return this.#output(event, settings);
      case "awaiting.confirmation":
      case "awaiting.clarification":
        // The dialog says it.
        return [];
      default:
        return polite(own);
    }
  }

  /** @param {AaepEvent} event @param {Settings} settings @param {LocalText | undefined} own @returns {Utterance[]} */
  #state(event, settings, own) {
    const outcome = event["extensions"]?.consent?.outcome;
    if (outcome === undefined) return this.#quietly(settings.load === "low" || !settings.announced.states, own);
    // Why a question was closed without an answer is said as it closes.
    return ["accepted", "rejected", "answered"].includes(outcome) ? polite(own) : [];
  }

  /** @param {boolean} isOff @param {LocalText | undefined} own @returns {Utterance[]} */
  #quietly(isOff, own) {
    return isOff ? [] : polite(own);
  }

  /** @param {AaepEvent} event @param {Settings} settings @param {LocalText | undefined} own @returns {Utterance[]} */
  #failure(event, settings, own) {
    const hint = pick(event, ["remediation_hint"], settings);
    const parts = [t("failed", { text: own?.text ?? String(event["error_code"] ?? "") })];
    if (event["error_category"] === "requires_user") parts.push(t("failed-needs-you"));
    if (hint) parts.push(t("failed-remedy", { hint: hint.text }));
    return [{ text: parts.join(" "), lang: own?.lang ?? "", isUrgent: true }];
  }

  /** @param {AaepEvent} event @param {Settings} settings @param {LocalText | undefined} own @returns {Utterance[]} */
  #progress(event, settings, own) {
    // The dialog has the remaining time, and says it in time.
    if (event["extensions"]?.consent) return [];
    const { step, total_steps: total, percent } = event["progress"] ?? {};
    const parts = [];
    if (step !== undefined && total !== undefined) parts.push(t("step", { step, total }));
    if (percent !== undefined) parts.push(t("percent", { percent: Math.round(percent) }));
    return this.#quietly(settings.load === "low" || !settings.announced.states, own ?? { text: parts.join(" "), lang: "" });
  }

  /** @param {AaepEvent} event @param {Settings} settings @param {LocalText | undefined} own @returns {Utterance[]} */
  #toolInvoked(event, settings, own) {
    const run = this.#runs.get(event.session_id) ?? { count: 0, failed: 0 };
    run.count += 1;
    this.#runs.set(event.session_id, run);
    return this.#quietly(settings.load === "low" || !settings.announced.tools || run.count > MAX_SINGLE_CALLS, own);
  }

  /** @param {AaepEvent} event @param {Settings} settings @param {LocalText | undefined} own @returns {Utterance[]} */
  #toolCompleted(event, settings, own) {
    const run = this.#runs.get(event.session_id);
    const failed = event["status"] !== "success";
    if (run && failed) run.failed += 1;
    if (settings.load === "low" || !settings.announced.tools) return [];
    if (!failed) return (run?.count ?? 0) > MAX_SINGLE_CALLS || settings.verbosity === "terse" ? [] : polite(own);
    if ((run?.failed ?? 0) > MAX_SINGLE_CALLS) return [];
    const tool = String(event["tool"] ?? "").replaceAll("_", " ");
    const reason = own ?? pick(event, ["error_message"], settings);
    const timedOut = event["status"] === "timeout" ? t("tool-timeout", { tool }) : t("tool-failed-plain", { tool });
    return polite({ text: reason ? t("tool-failed", { tool, reason: reason.text }) : timedOut, lang: reason?.lang ?? "" });
  }

  /** Says how many tool calls there were, if they were not announced one by one. @param {AaepEvent} event @returns {Utterance[]} */
  #sumUpTools(event) {
    const kind = kindOf(event);
    if (kind.startsWith("tool.") || kind === "state.changed" || kind === "progress.updated") return [];
    const run = this.#runs.get(event.session_id);
    this.#runs.delete(event.session_id);
    if (!run || run.count <= MAX_SINGLE_CALLS) return [];
    const id = run.failed > 0 ? "tool-calls-failed" : "tool-calls";
    return polite({ text: t(id, { count: run.count, failed: run.failed }), lang: "" });
  }

  /** @param {AaepEvent} event @param {Settings} settings @returns {Utterance[]} */
  #output(event, settings) {
    const key = `${event.session_id} ${event["output_id"] ?? ""}`;
    const output = this.#outputs.get(key) ?? new OutputText();
    this.#outputs.set(key, output);
    if (this.#outputs.size > MAX_OUTPUTS) this.#outputs.delete([...this.#outputs.keys()][0] ?? "");
    output.add(String(event["chunk"] ?? ""), String(event["content_type"] ?? ""));
    const isComplete = event["complete"] === true;
    const said = output.takeNew(isComplete);
    if (isComplete) this.#outputs.delete(key);
    const lang = String(event["language"] ?? primaryLanguage(event, settings));
    return settings.announced.text ? said.map((text) => ({ text, lang, isUrgent: false })) : [];
  }
}

/** @param {LocalText | undefined} text @returns {Utterance[]} */
function polite(text) {
  return text === undefined || text.text === "" ? [] : [{ ...text, isUrgent: false }];
}

/** @param {Utterance} one @param {AaepEvent} event @returns {Utterance} */
function withAgent(one, event) {
  return { ...one, text: t("agent-says", { agent: agentName(event), text: one.text }) };
}

/** @param {AaepEvent} event @returns {string} */
function cancelledBy(event) {
  const by = String(event["cancelled_by"] ?? "");
  return { user: "cancelled-user", producer: "cancelled-producer", timeout: "cancelled-timeout", system: "cancelled-system" }[by] ?? "cancelled-other";
}

/** @param {AaepEvent} event @param {Settings} settings @returns {string} */
function handoff(event, settings) {
  const target = String(event["target_kind"] ?? "");
  const ids = { human: "handoff-human", specialist_agent: "handoff-specialist", escalation_queue: "handoff-queue" };
  const id = ids[/** @type {keyof typeof ids} */ (target)] ?? "handoff-other";
  const reason = pick(event, ["reason"], settings)?.text ?? summary(event, settings)?.text ?? "";
  return t(id, { agent: agentName(event), reason });
}
