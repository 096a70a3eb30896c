// The operator's view: subscriptions, open questions, decisions and rates. It is not a live region: who wants to know, reads.

import { byId, el, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";
import { linePlot } from "./plot.js";

/** How often the numbers are asked for, in milliseconds. */
const INTERVAL_MILLIS = 2000;

/** Samples of the plots. */
const MAX_SAMPLES = 60;

/** Samples in the table beside them. */
const TABLE_SAMPLES = 5;

export class Operator {
  #token;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  /** @type {{time: Date, rate: number}[]} */
  #samples = [];
  /** @type {{delivered: number, at: number} | undefined} */
  #last;

  /** @param {() => string | undefined} token */
  constructor(token) {
    this.#token = token;
  }

  /** @param {boolean} isShown */
  show(isShown) {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (!isShown) return;
    void this.#refresh();
    this.#timer = setInterval(() => void this.#refresh(), INTERVAL_MILLIS);
  }

  async #refresh() {
    const token = this.#token();
    /** @type {Record<string, string>} */
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch("/aaep/v1/status", { headers, cache: "no-store", credentials: "omit" }).catch(() => undefined);
    const problem = byId("operator-problem");
    problem.hidden = response?.ok === true;
    if (!response?.ok) {
      problem.textContent = response?.status === 403 ? t("page-forbidden") : t("page-no-numbers");
      return;
    }
    // What is being read stays as it is.
    if (byId("view-operator").contains(document.getSelection()?.anchorNode ?? null) && !document.getSelection()?.isCollapsed) return;
    this.#draw(await response.json());
  }

  /** @param {any} status */
  #draw(status) {
    const text = (/** @type {any} */ value) => (value === null || value === undefined ? "–" : String(value));
    const subscriptions = status.subscriptions.map((/** @type {any} */ one) => [
      one.subscription_id, one.principal, one.delivered, one.held, one.coalesced, one.queued, JSON.stringify(one.honored_capabilities)]);
    const questions = status.questions.map((/** @type {any} */ one) => [one.asked_at, one.shown, one.session_id]);
    const decisions = status.decisions.map((/** @type {any} */ one) => [one.decided_at, one.shown, one.resolution, one.principal]);
    this.#rows("operator-subscriptions", subscriptions, text);
    this.#rows("operator-questions", questions, text);
    this.#rows("operator-decisions", decisions, text);
    this.#sample(status.delivered);
  }

  /** @param {string} id @param {any[][]} rows @param {(value: any) => string} text */
  #rows(id, rows, text) {
    const cells = (/** @type {any[]} */ row) => row.map((value, i) => (i === 0 ? el("th", { scope: "row" }, text(value)) : el("td", {}, text(value))));
    replaceChildren(byId(id), ...rows.map((row) => el("tr", {}, ...cells(row))));
    byId(`${id}-none`).hidden = rows.length > 0;
  }

  /** @param {number} delivered */
  #sample(delivered) {
    const at = performance.now();
    if (this.#last && at > this.#last.at) {
      const rate = Math.max(0, (delivered - this.#last.delivered) / ((at - this.#last.at) / 1000));
      this.#samples.push({ time: new Date(), rate });
      if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    }
    this.#last = { delivered, at };
    const rates = this.#samples.map(({ rate }) => rate);
    replaceChildren(byId("operator-plot"), linePlot(t("page-plot"), rates, MAX_SAMPLES));
    const newest = this.#samples.slice(-TABLE_SAMPLES).reverse();
    this.#rows("operator-rates", newest.map(({ time, rate }) => [time.toLocaleTimeString(), rate.toFixed(1)]), String);
  }
}
