// Captions: what the agent says, large, word by word.

import { kindOf } from "./client/index.js";
import { expose } from "./deception.js";
import { byId, el, labelled, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";
import { clamp } from "./settings.js";
import { languageAttributes } from "./texts.js";

/**
 * @typedef {import("./utterances.js").Utterance} Utterance
 * @typedef {import("./settings.js").Settings} Settings
 */

/** The most words that wait to be shown. Of more, the oldest are shown at once. */
const MAX_WAITING = 60;

/** The lines that stay. */
const MAX_LINES = 6;

export class Captions {
  #settings;
  #lines = byId("caption-lines");
  /** @type {{word: string, lang: string, startsLine: boolean}[]} */
  #waiting = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {() => Settings} settings @param {(change: Partial<Settings>) => void} change */
  constructor(settings, change) {
    this.#settings = settings;
    const size = el("input", { type: "range", min: 100, max: 800, step: 50, value: settings().captionSize });
    size.addEventListener("input", () => {
      change({ captionSize: clamp(size.value, 100, 800, 300) });
      this.resize();
    });
    byId("caption-controls").append(labelled(t("page-caption-size"), size));
    replaceChildren(this.#lines, el("p", { class: "hint" }, t("page-captions-empty")));
    this.resize();
  }

  /** Uses the size that is set. */
  resize() {
    // A custom property: the policy of the page forbids style attributes in markup, and this is none.
    this.#lines.style.setProperty("--caption-size", `${this.#settings().captionSize}%`);
  }

  /** @param {import("./client/messages.js").AaepEvent} event @param {Utterance[]} utterances */
  add(event, utterances) {
    const texts = /** @type {Pick<Utterance, "text" | "lang">[]} */ ([...utterances]);
    const asked = event["action"] ?? event["question"];
    if (kindOf(event).startsWith("awaiting.") && typeof asked === "string") texts.push({ text: expose(asked), lang: "" });
    for (const { text, lang } of texts) {
      const words = text.split(/\s+/).filter((word) => word !== "");
      for (const [i, word] of words.entries()) this.#waiting.push({ word, lang, startsLine: i === 0 });
    }
    while (this.#waiting.length > MAX_WAITING) this.#showNext();
    this.#timer ??= setTimeout(() => this.#tick(), 0);
  }

  #tick() {
    this.#showNext();
    const hasMore = this.#waiting.length > 0;
    this.#timer = hasMore ? setTimeout(() => this.#tick(), 60_000 / this.#settings().pace) : undefined;
  }

  #showNext() {
    const next = this.#waiting.shift();
    if (!next) return;
    this.#lines.querySelector(".hint")?.remove();
    const last = this.#lines.lastElementChild;
    if (next.startsLine || !last) {
      this.#lines.append(el("p", languageAttributes(next.lang), next.word));
      while (this.#lines.childElementCount > MAX_LINES) this.#lines.firstElementChild?.remove();
    } else last.append(` ${next.word}`);
    this.#lines.scrollTop = this.#lines.scrollHeight;
  }
}
