// The inspector: every event as it came, what is wrong with it, and the terms of the subscription.

import { byId, choice, download, el, labelled, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";
import { findingsOf, loadSchemas } from "./schema.js";

/**
 * @typedef {import("./client/messages.js").AaepEvent} AaepEvent
 * @typedef {import("./client/messages.js").Accepted} Accepted
 * @typedef {import("./settings.js").Settings} Settings
 */

/** Events in the list. */
const MAX_SHOWN = 100;

/** Events that a capture keeps, and their characters. */
const MAX_CAPTURED = 10_000;
const MAX_CAPTURED_CHARS = 8_000_000;

export class Inspector {
  #list = byId("inspector-list");
  /** @type {string[]} */
  #captured = [];
  #capturedChars = 0;
  #received = 0;
  #isShown = false;
  /** @type {{event: AaepEvent, delay: number}[]} */
  #waiting = [];
  #isDrawing = false;
  #requested = /** @type {Record<string, any>} */ ({});
  /** @type {Accepted | undefined} */
  #terms;

  /** @param {{renegotiate: (change: Record<string, any>) => Promise<void>, say: (text: string) => void}} actions */
  constructor(actions) {
    const verbosity = choice([["terse", t("page-terse")], ["normal", t("page-normal")], ["detailed", t("page-detailed")]], "normal");
    const load = choice([["low", t("page-low")], ["medium", t("page-medium")], ["high", t("page-high")]], "medium");
    const rate = el("input", { type: "number", min: 1, max: 1000, value: "" });
    const form = el("form", {}, labelled(t("page-verbosity"), verbosity), labelled(t("page-load"), load), labelled(t("page-rate"), rate),
      el("button", { type: "submit" }, t("page-change-terms")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      /** @type {Record<string, any>} */
      const change = { preferred_verbosity: verbosity.value, cognitive_load: load.value };
      if (rate.value !== "") change["max_events_per_second"] = Number(rate.value);
      const told = (/** @type {string} */ text) => actions.say(text);
      actions.renegotiate(change).then(() => told(t("page-terms-changed")), (error) => told(t("page-not-sent", { why: String(error.message) })));
    });
    byId("inspector-terms-form").append(form);
    byId("inspector-controls").append(
      el("button", { type: "button", click: () => this.#save() }, t("page-capture")),
      el("button", { type: "button", click: () => this.#clear() }, t("page-clear")),
    );
    this.#count();
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.#isShown = isShown;
    if (isShown) void this.#draw();
  }

  /** @param {Record<string, any>} requested @param {Accepted} [terms] */
  setTerms(requested, terms) {
    this.#requested = requested;
    this.#terms = terms ?? this.#terms;
    const honored = this.#terms?.honored_capabilities ?? {};
    const names = [...new Set([...Object.keys(this.#requested), ...Object.keys(honored)])].sort();
    const cell = (/** @type {any} */ value) => el("td", {}, value === undefined ? "–" : JSON.stringify(value));
    const rows = names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), cell(this.#requested[name]), cell(honored[name])));
    replaceChildren(byId("inspector-terms-body"), ...rows);
    byId("inspector-notes").textContent = this.#terms?.negotiation_notes ?? "";
  }

  /** @param {AaepEvent} event */
  add(event) {
    const line = JSON.stringify(event);
    this.#received += 1;
    this.#captured.push(line);
    this.#capturedChars += line.length;
    while (this.#captured.length > MAX_CAPTURED || this.#capturedChars > MAX_CAPTURED_CHARS) {
      this.#capturedChars -= this.#captured.shift()?.length ?? 0;
    }
    this.#waiting.push({ event, delay: Date.now() - Date.parse(event.timestamp) });
    if (this.#waiting.length > MAX_SHOWN) this.#waiting.shift();
    if (this.#isShown && !this.#isDrawing) {
      this.#isDrawing = true;
      setTimeout(() => void this.#draw(), 200);
    }
  }

  async #draw() {
    const schemas = await loadSchemas();
    this.#isDrawing = false;
    for (const { event, delay } of this.#waiting.splice(0)) this.#list.append(this.#item(event, delay, findingsOf(schemas, event)));
    while (this.#list.childElementCount > MAX_SHOWN && !this.#list.firstElementChild?.contains(document.activeElement)) {
      this.#list.firstElementChild?.remove();
    }
    this.#count();
  }

  #count() {
    byId("inspector-count").textContent = t("page-received", { count: this.#received });
  }

  /** @param {AaepEvent} event @param {number} delay @param {string[]} findings @returns {HTMLElement} */
  #item(event, delay, findings) {
    const found = findings.length === 0 ? t("page-no-findings") : t("page-findings", { count: findings.length });
    const head = el("summary", {}, `${event.type}. ${found}`);
    const timing = el("p", {}, Number.isFinite(delay) ? t("page-latency", { millis: delay }) : "");
    const list = findings.length > 0 ? el("ul", {}, ...findings.map((text) => el("li", {}, text))) : undefined;
    // The JSON is made when it is looked at.
    const details = el("details", {}, head);
    details.addEventListener("toggle", () => {
      if (details.childElementCount > 1) return;
      const json = el("pre", { dir: "ltr", translate: "no", tabindex: 0, role: "group", "aria-label": "JSON" }, el("code", {}, JSON.stringify(event, null, 2)));
      for (const part of [timing, list, json]) if (part) details.append(part);
    });
    return el("li", {}, details);
  }

  #clear() {
    replaceChildren(this.#list);
    this.#waiting = [];
    this.#captured = [];
    this.#capturedChars = 0;
    this.#received = 0;
    this.#count();
  }

  #save() {
    download("capture.ndjson", "application/x-ndjson", this.#captured.map((line) => `${line}\n`).join(""));
  }
}
