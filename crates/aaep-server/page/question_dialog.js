// The dialog of a question. Only a deliberate act answers it: not a key that was pressed as it appeared, and not Escape.

import { byId, el, isChromium, replaceChildren, set } from "./dom.js";
import { duration, t } from "./phrases.js";
import { answerForm } from "./question_form.js";
import { askedText, detailsOf, needsSecondStep, secondsLeft, titleOf, wholeQuestion } from "./question_text.js";
import { languageAttributes } from "./texts.js";

/**
 * @typedef {import("./client/prompts.js").Prompt} Prompt
 * @typedef {import("./client/messages.js").Decision} Decision
 * @typedef {import("./settings.js").Settings} Settings
 */

/**
 * What the dialog needs of the page.
 * @typedef {object} DialogActions
 * @property {(prompt: Prompt, decision: Decision) => Promise<void>} confirm
 * @property {(prompt: Prompt, response: string | number | boolean, words: string) => Promise<void>} clarify
 * @property {(text: string) => void} say Says something now.
 * @property {() => Settings} settings
 * @property {() => string} askForMoreTime Asks for more time from the next question on, and says so.
 * @property {(prompt: Prompt | undefined) => void} changed Another question is open, or none.
 */

/** How long the user must not have pressed a key before a question can be answered, in milliseconds. */
const GUARD_MILLIS = 800;

/** How long a screen reader may take to read the page after it has loaded, in milliseconds. */
const READING_MILLIS = 20_000;

/** How long a dialog that changes is not shown, in milliseconds. */
const REOPEN_MILLIS = 100;

/** When the user is warned that time runs out, in seconds. */
const WARNING_SECONDS = 30;

export class QuestionDialog {
  #actions;
  #root = byId("dialog");
  #title = byId("dialog-title");
  #text = byId("dialog-text");
  #answers = byId("dialog-answers");
  #problem = byId("dialog-problem");
  /** @type {Prompt | undefined} */
  #prompt;
  /** @type {Element | null} */
  #focusBefore = null;
  #guardedUntil = 0;
  /** Whether the open dialog was shown before its content changed. */
  #wasShown = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #warning;

  /** @param {DialogActions} actions */
  constructor(actions) {
    this.#actions = actions;
    const tools = byId("dialog-tools");
    tools.append(
      this.#button("page-repeat", () => this.#repeat()),
      this.#button("page-time-left", () => this.#sayTime()),
      this.#button("page-more-time", () => this.#actions.say(this.#actions.askForMoreTime())),
      this.#button("page-later", () => this.later()),
    );
    this.#root.addEventListener("keydown", (event) => this.#keydown(event), { capture: true });
    this.#root.addEventListener("click", (event) => this.#guard(event), { capture: true });
    this.#root.addEventListener("submit", (event) => event.preventDefault());
  }

  /** @returns {Prompt | undefined} The question that is open. */
  get prompt() {
    return this.#prompt;
  }

  /** @param {string} id @param {() => void} act @returns {HTMLButtonElement} */
  #button(id, act) {
    return el("button", { type: "button", click: act }, t(id));
  }

  /** Shows a question. @param {Prompt} prompt */
  open(prompt) {
    if (!this.#prompt) this.#focusBefore = document.activeElement;
    this.#root.hidden = true;
    this.#prompt = prompt;
    const settings = this.#actions.settings();
    this.#title.textContent = titleOf(prompt);
    const asked = askedText(prompt, settings);
    const details = detailsOf(prompt, settings).map(({ text, lang }) => el("p", languageAttributes(lang), text));
    replaceChildren(this.#text, el("p", { class: "asked", ...languageAttributes(asked.lang) }, asked.text), ...details);
    this.#problem.textContent = "";
    // Chromium reports an alertdialog twice, as an alert and as a dialog, and screen readers read it twice.
    set(this.#root, { role: prompt.kind === "confirmation" && !isChromium() ? "alertdialog" : "dialog" });
    document.body.classList.add("has-dialog");
    this.#actions.changed(prompt);
    if (prompt.kind === "confirmation") this.#askToConfirm(prompt);
    else this.#askToClarify(prompt);
    this.#startWarning(prompt);
  }

  /** @param {Prompt} prompt */
  #askToConfirm(prompt) {
    const no = this.#button("page-no", () => void this.#decide(prompt, "reject"));
    const yes = this.#button("page-yes", () => (needsSecondStep(prompt) ? this.#askTwice(prompt) : void this.#decide(prompt, "accept")));
    yes.className = "danger";
    replaceChildren(this.#answers, no, yes);
    this.#focus(no);
  }

  /** Asks once more before something that cannot be undone. @param {Prompt} prompt */
  #askTwice(prompt) {
    // A screen reader reads a dialog that opens, and not one that changes.
    this.#root.hidden = true;
    const asked = askedText(prompt, this.#actions.settings());
    const sure = el("p", { class: "asked" }, t("page-sure"));
    const action = el("p", languageAttributes(asked.lang), asked.text);
    replaceChildren(this.#text, sure, action, el("p", {}, t("undo-never")));
    const back = this.#button("page-back", () => this.open(prompt));
    const yes = this.#button("page-yes-for-good", () => void this.#decide(prompt, "accept"));
    yes.className = "danger";
    replaceChildren(this.#answers, back, yes);
    this.#focus(back);
  }

  /** @param {Prompt} prompt */
  #askToClarify(prompt) {
    const form = answerForm(prompt);
    const send = el("button", { type: "submit" }, t("page-send"));
    const element = el("form", { novalidate: true }, form.fields, send);
    element.addEventListener("submit", () => {
      const answer = form.read();
      if ("problem" in answer) {
        this.#problem.textContent = answer.problem;
        set(answer.at, { "aria-invalid": "true", "aria-errormessage": "dialog-problem" });
        answer.at.focus();
        this.#actions.say(answer.problem);
      } else void this.#send(prompt, () => this.#actions.clarify(prompt, answer.response, answer.words));
    });
    replaceChildren(this.#answers, element);
    this.#focus(form.first);
  }

  /**
   * Shows the dialog with the focus on an element, so that a screen reader reads the question with it.
   * @param {HTMLElement} element
   */
  #focus(element) {
    // While a screen reader still reads the page that has just loaded, it may say nothing of a new dialog but the element
    // with the focus. Later that would say the question twice.
    if (performance.now() < READING_MILLIS) element.setAttribute("aria-describedby", "dialog-text");
    const show = () => {
      if (!element.isConnected) return;
      this.#root.hidden = false;
      element.focus();
      this.#startGuard();
    };
    if (this.#wasShown) setTimeout(show, REOPEN_MILLIS);
    else show();
    this.#wasShown = true;
  }

  /** @param {Prompt} prompt @param {Decision} decision */
  #decide(prompt, decision) {
    return this.#send(prompt, () => this.#actions.confirm(prompt, decision));
  }

  /** @param {Prompt} prompt @param {() => Promise<void>} send */
  async #send(prompt, send) {
    try {
      await send();
    } catch (error) {
      if (this.#prompt !== prompt) return;
      const why = error instanceof Error ? error.message : String(error);
      this.#problem.textContent = t("page-not-sent", { why });
      this.#actions.say(this.#problem.textContent);
    }
  }

  /** Closes the dialog and leaves the question open. */
  later() {
    if (!this.#prompt) return;
    this.close();
    this.#actions.say(t("page-later-said"));
  }

  /** Closes the dialog and returns the focus to where it was. */
  close() {
    clearTimeout(this.#warning);
    const hadFocus = this.#root.contains(document.activeElement);
    this.#prompt = undefined;
    this.#wasShown = false;
    this.#root.hidden = true;
    document.body.classList.remove("has-dialog");
    replaceChildren(this.#text);
    replaceChildren(this.#answers);
    this.#actions.changed(undefined);
    if (hadFocus || document.activeElement === document.body) this.#restoreFocus();
  }

  #restoreFocus() {
    const before = this.#focusBefore;
    const isThere = before instanceof HTMLElement && before !== document.body && before.isConnected && before.checkVisibility();
    (isThere ? before : byId("heading")).focus();
  }

  #repeat() {
    if (this.#prompt) this.#actions.say(wholeQuestion(this.#prompt, this.#actions.settings()));
  }

  #sayTime() {
    if (this.#prompt) this.#actions.say(t("time-left", { time: duration(secondsLeft(this.#prompt)) }));
  }

  /** @param {Prompt} prompt */
  #startWarning(prompt) {
    clearTimeout(this.#warning);
    const seconds = secondsLeft(prompt) - WARNING_SECONDS;
    if (seconds <= 0) return;
    const warn = () => this.#actions.say(t("still-waiting", { time: duration(secondsLeft(prompt)) }));
    this.#warning = setTimeout(warn, seconds * 1000);
  }

  #startGuard() {
    this.#guardedUntil = performance.now() + GUARD_MILLIS;
  }

  /** Ignores an answer that may have been meant for something else. @param {Event} event @returns {boolean} */
  #guard(event) {
    if (performance.now() >= this.#guardedUntil) return false;
    event.preventDefault();
    event.stopPropagation();
    this.#startGuard();
    return true;
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    if (event.key === "Tab") {
      this.#keepFocusInside(event);
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (!this.#guard(event)) this.later();
    } else if (event.repeat && (event.key === "Enter" || event.key === " ")) {
      // A key that is held down answers nothing.
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && this.#guard(event)) {
      this.#actions.say(t("ui-too-new"));
    } else if (performance.now() < this.#guardedUntil) {
      // The user is typing for something else.
      this.#guard(event);
    }
  }

  /** @param {KeyboardEvent} event */
  #keepFocusInside(event) {
    const all = [...this.#root.querySelectorAll("button, input")].filter((one) => one instanceof HTMLElement);
    const [first, last] = [all[0], all[all.length - 1]];
    const isAtEnd = document.activeElement === (event.shiftKey ? first : last);
    if (!isAtEnd && this.#root.contains(document.activeElement)) return;
    event.preventDefault();
    (event.shiftKey ? last : first)?.focus();
  }
}
