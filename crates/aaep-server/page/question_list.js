// The list of questions that wait for an answer, with their number, which the title of the page has too.

import { byId, el, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";
import { askedText, titleOf } from "./question_text.js";
import { languageAttributes } from "./texts.js";

/**
 * @typedef {import("./client/prompts.js").Prompt} Prompt
 * @typedef {import("./settings.js").Settings} Settings
 */

export class QuestionList {
  #open;

  /** @param {(prompt: Prompt) => void} open Opens a question. */
  constructor(open) {
    this.#open = open;
  }

  /** @param {Prompt[]} prompts @param {Settings} settings */
  show(prompts, settings) {
    const count = prompts.length;
    byId("question-count").textContent = count === 0 ? t("nothing-waits") : t("waiting-count", { count });
    document.title = count === 0 ? t("page-title") : `(${count}) ${t("page-title")}`;
    const list = byId("question-list");
    const focused = list.contains(document.activeElement) ? document.activeElement?.id : undefined;
    list.hidden = count === 0;
    replaceChildren(list, ...prompts.map((prompt, i) => this.#item(prompt, i + 1, settings)));
    if (focused) (document.getElementById(focused) ?? byId("heading")).focus();
  }

  /** @param {Prompt} prompt @param {number} number @param {Settings} settings @returns {HTMLElement} */
  #item(prompt, number, settings) {
    const asked = askedText(prompt, settings);
    const text = el("span", languageAttributes(asked.lang), asked.text);
    const answer = el("button", { type: "button", id: `answer-${prompt.token}`, click: () => this.#open(prompt) }, t("page-answer-question", { number }));
    return el("li", {}, el("p", {}, `${titleOf(prompt)}: `, text), answer);
  }
}
