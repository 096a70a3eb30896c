// The questions that wait for an answer.

import { isTerminal, kindOf } from "./messages.js";

/** @typedef {import("./messages.js").AaepEvent} AaepEvent */

/**
 * Why a question is no longer open.
 * - `answered`: it was answered here.
 * - `elsewhere`: another subscriber answered it.
 * - `timed_out`: nobody answered in time.
 * - `withdrawn`: the agent withdrew it.
 * - `session`: its session ended.
 * - `connection`: the producer does not have it any more after the connection was lost.
 * @typedef {"answered" | "elsewhere" | "timed_out" | "withdrawn" | "session" | "connection"} Closing
 */

/**
 * A question.
 * @typedef {object} Prompt
 * @property {string} token
 * @property {"confirmation" | "clarification"} kind
 * @property {AaepEvent} event
 * @property {number} deadline When its time is over, as `performance.now()` counts.
 * @property {string} sent The outcome that an answer on its way brings about, or an empty text.
 */

/** How long the producer may take to report that time ran out, in milliseconds. */
const REPORT_MILLIS = 5000;

/** The most questions that are kept. */
const MAX_PROMPTS = 256;

/** How long a producer may take to repeat its open questions to a new subscription, in milliseconds. */
const REPEAT_MILLIS = 5000;

export class Prompts {
  /** @type {Map<string, Prompt>} */
  #open = new Map();
  /** Tokens that were not repeated yet by the new subscription. @type {Set<string>} */
  #unconfirmed = new Set();
  #unconfirmedUntil = 0;
  /** @type {(prompt: Prompt, how: Closing, outcome: string) => void} */
  #onClosed;

  /** @param {(prompt: Prompt, how: Closing, outcome: string) => void} onClosed */
  constructor(onClosed) {
    this.#onClosed = onClosed;
  }

  /** @returns {Prompt[]} The open questions, the oldest first. */
  list() {
    return [...this.#open.values()];
  }

  /** @param {string} token @returns {Prompt | undefined} */
  get(token) {
    return this.#open.get(token);
  }

  /**
   * Handles an event. Returns the question that it asks, if it is a new one.
   * @param {AaepEvent} event
   * @returns {Prompt | undefined}
   */
  handle(event) {
    const kind = kindOf(event);
    if (kind === "awaiting.confirmation" || kind === "awaiting.clarification") return this.#ask(event, kind);
    const consent = event["extensions"]?.consent;
    if (kind === "state.changed" && typeof consent?.reply_token === "string" && consent.outcome) {
      const outcome = String(consent.outcome);
      // The outcome may come before the response to the answer.
      const isOwn = this.get(consent.reply_token)?.sent === outcome;
      this.close(consent.reply_token, isOwn ? "answered" : closingOf(outcome), outcome);
    }
    if (isTerminal(event)) {
      for (const prompt of this.list()) {
        if (prompt.event.session_id === event.session_id) this.close(prompt.token, "session", "");
      }
    }
    return undefined;
  }

  /** @param {AaepEvent} event @param {string} kind @returns {Prompt | undefined} */
  #ask(event, kind) {
    const token = String(event["reply_token"] ?? "");
    this.#unconfirmed.delete(token);
    const known = this.#open.get(token);
    if (known) {
      known.deadline = deadlineOf(event);
      return undefined;
    }
    /** @type {Prompt} */
    const prompt = {
      token,
      kind: kind === "awaiting.confirmation" ? "confirmation" : "clarification",
      event,
      deadline: deadlineOf(event),
      sent: "",
    };
    this.#open.set(token, prompt);
    const [oldest] = this.#open.values();
    if (this.#open.size > MAX_PROMPTS && oldest) this.close(oldest.token, "connection", "");
    return prompt;
  }

  /** @param {string} token @param {Closing} how @param {string} outcome */
  close(token, how, outcome) {
    const prompt = this.#open.get(token);
    if (!prompt) return;
    this.#open.delete(token);
    this.#onClosed(prompt, how, outcome);
  }

  /** A new subscription begins: the producer repeats the questions that are still open. */
  restart() {
    this.#unconfirmed = new Set(this.#open.keys());
    this.#unconfirmedUntil = performance.now() + REPEAT_MILLIS;
  }

  /** Closes what is over. To be called about once a second. */
  tick() {
    const time = performance.now();
    for (const prompt of this.list()) {
      if (time > prompt.deadline + REPORT_MILLIS) this.close(prompt.token, "timed_out", "timed_out");
      else if (this.#unconfirmed.has(prompt.token) && time > this.#unconfirmedUntil) {
        this.close(prompt.token, "connection", "");
      }
    }
  }
}

/** @param {AaepEvent} event @returns {number} */
function deadlineOf(event) {
  const seconds = Math.min(Math.max(Number(event["timeout_seconds"]) || 0, 0), 86_400);
  // An event that was kept for a subscriber that resumes is older than its arrival. Clocks may differ: an age that makes no
  // sense is ignored.
  const age = (Date.now() - Date.parse(event.timestamp)) / 1000;
  const used = age > 2 && age < seconds ? age : 0;
  return performance.now() + (seconds - used) * 1000;
}

/** @param {string} outcome @returns {Closing} */
function closingOf(outcome) {
  if (outcome === "accepted" || outcome === "rejected" || outcome === "answered") return "elsewhere";
  if (outcome === "timed_out" || outcome === "nobody_could_answer" || outcome === "subscriber_left") return "timed_out";
  return "withdrawn";
}
