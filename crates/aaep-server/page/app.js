// The page: connects the client with the announcer, the questions and the views.

import { Announcer, beep } from "./announcer.js";
import { Captions } from "./captions.js";
import { AaepClient } from "./client/index.js";
import { expose } from "./deception.js";
import { showScenes } from "./demo.js";
import { byId } from "./dom.js";
import { Inspector } from "./inspector.js";
import { Operator } from "./operator.js";
import { directionOf, loadPhrases, phraseLanguage, t } from "./phrases.js";
import { QuestionDialog } from "./question_dialog.js";
import { QuestionList } from "./question_list.js";
import { closedText } from "./question_text.js";
import { capabilitiesFor, loadSettings, saveSettings } from "./settings.js";
import { showSettings } from "./settings_view.js";
import { askForToken } from "./sign_in.js";
import { Tabs } from "./tabs.js";
import { Transcript } from "./transcript.js";
import { Utterances } from "./utterances.js";

/**
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./client/messages.js").AaepEvent} AaepEvent
 * @typedef {import("./client/prompts.js").Prompt} Prompt
 * @typedef {import("./client/prompts.js").Closing} Closing
 * @typedef {import("./client/client.js").ConnectionState} ConnectionState
 */

class Page {
  /** @type {Settings} */
  #settings = loadSettings();
  /** @type {string | undefined} */
  #token;
  /** @type {AaepClient | undefined} */
  #client;
  /** Terms that only the inspector asks for. @type {Record<string, any>} */
  #extraTerms = {};
  #agent = "";
  #utterances = new Utterances();
  #announcer = new Announcer(byId("polite"), byId("assertive"), () => this.#settings, (count) => t("flood", { count }));
  #list = new QuestionList((prompt) => this.#dialog.open(prompt));
  #dialog = this.#newDialog();
  #transcript = new Transcript(() => this.#settings, { say: (text) => this.#say(text), cancel: (session) => void this.#cancel(session) });
  #captions = new Captions(() => this.#settings, (change) => this.#change(change));
  #inspector = new Inspector({ say: (text) => this.#say(text), renegotiate: (change) => this.#renegotiate(change) });
  #operator = new Operator(() => this.#token);
  #tabs = new Tabs((view) => this.#shown(view));

  /** @returns {QuestionDialog} */
  #newDialog() {
    return new QuestionDialog({
      confirm: (prompt, decision) => this.#confirm(prompt, decision),
      clarify: (prompt, response, words) => this.#clarify(prompt, response, words),
      say: (text) => this.#say(text),
      settings: () => this.#settings,
      askForMoreTime: () => this.#askForMoreTime(),
      changed: (prompt) => this.#announcer.hold(prompt !== undefined),
    });
  }

  /** @param {{needs_token: boolean, has_scenes: boolean}} server */
  async start(server) {
    showSettings(this.#settings, (change) => this.#change(change));
    this.#tabs.offer("demo", server.has_scenes);
    this.#tabs.show(server.has_scenes ? "demo" : "live");
    this.#list.show([], this.#settings);
    let problem = "";
    for (;;) {
      if (server.needs_token) this.#token = await askForToken(problem);
      if (server.has_scenes) void showScenes(() => this.#token, (text) => this.#say(text));
      problem = await this.#follow();
      if (!server.needs_token) return;
    }
  }

  /** Follows the agents until the server refuses. @returns {Promise<string>} Why it refused. */
  async #follow() {
    let refusal = "";
    const options = { subscriberId: "aaep-page", subscriberName: "AAEP page", capabilities: this.#capabilities() };
    this.#client = new AaepClient(this.#token === undefined ? options : { ...options, token: this.#token }, {
      event: (event) => this.#handleEvent(event),
      question: (prompt) => this.#handleQuestion(prompt),
      questionClosed: (prompt, how) => this.#handleClosed(prompt, how),
      connection: (state, error) => {
        if (state === "refused") refusal = error?.message ?? "";
        this.#showConnection(state, error?.message ?? "");
      },
      terms: (accepted) => {
        this.#agent = expose(accepted.producer?.agent_name ?? accepted.producer?.agent_id ?? "");
        this.#inspector.setTerms(this.#capabilities(), accepted);
      },
      gap: () => this.#announcer.say([{ text: t("gap"), lang: "", isUrgent: false }]),
    });
    await this.#client.run();
    return refusal;
  }

  /** @returns {Record<string, any>} */
  #capabilities() {
    return { ...capabilitiesFor(this.#settings), ...this.#extraTerms };
  }

  /** @param {ConnectionState} state @param {string} why */
  #showConnection(state, why) {
    const before = byId("connection").textContent;
    const agent = this.#agent || t("agent-unknown");
    const texts = {
      connecting: t("page-connecting"),
      connected: t("page-connected", { agent }),
      reconnecting: t("connection-lost", { agent }),
      ended: t("connection-ended", { agent }),
      refused: t("page-refused", { why }),
      closed: t("page-closed"),
    };
    byId("connection").textContent = texts[state];
    // That it is connected is what everyone expects; only a change back is news.
    const isBack = state === "connected" && before !== t("page-connecting");
    const isNews = state !== "connected" && state !== "connecting";
    if (isBack) this.#announcer.say([{ text: t("connection-back", { agent }), lang: "", isUrgent: false }]);
    else if (isNews) this.#announcer.say([{ text: texts[state], lang: "", isUrgent: true }]);
  }

  /** @param {AaepEvent} event */
  #handleEvent(event) {
    const utterances = this.#utterances.of(event, this.#settings);
    this.#announcer.say(utterances);
    this.#transcript.add(event);
    this.#captions.add(event, utterances);
    this.#inspector.add(event);
  }

  /** @param {Prompt} prompt */
  #handleQuestion(prompt) {
    this.#showQuestions();
    if (this.#settings.sounds) beep();
    if (this.#dialog.prompt) {
      const count = this.#client?.questions.length ?? 0;
      this.#announcer.say([{ text: t("page-another-question", { count }), lang: "", isUrgent: true }]);
    } else this.#dialog.open(prompt);
  }

  /** @param {Prompt} prompt @param {Closing} how */
  #handleClosed(prompt, how) {
    const wasOpen = this.#dialog.prompt === prompt;
    if (how !== "answered") this.#announcer.say([{ text: closedText(prompt, how), lang: phraseLanguage(), isUrgent: true }]);
    if (wasOpen) this.#dialog.close();
    this.#showQuestions();
    const [next] = this.#client?.questions ?? [];
    if (wasOpen && next) this.#dialog.open(next);
  }

  #showQuestions() {
    this.#list.show(this.#client?.questions ?? [], this.#settings);
  }

  /** @param {Prompt} prompt @param {import("./client/messages.js").Decision} decision */
  async #confirm(prompt, decision) {
    await this.#client?.confirm(prompt.token, decision);
    this.#say(t("answer-sent", { words: t(decision === "accept" ? "word-yes" : "word-no") }));
  }

  /** @param {Prompt} prompt @param {string | number | boolean} response @param {string} words */
  async #clarify(prompt, response, words) {
    await this.#client?.clarify(prompt.token, response);
    this.#say(t("answer-sent", { words }));
  }

  /** @param {string} session */
  async #cancel(session) {
    try {
      await this.#client?.cancel(session);
      this.#say(t("ui-cancel-asked", { agent: this.#agent }));
    } catch (error) {
      this.#say(error instanceof Error ? error.message : String(error));
    }
  }

  /** @returns {string} */
  #askForMoreTime() {
    const factor = this.#settings.timeFactor < 3 ? 3 : 10;
    this.#change({ timeFactor: factor });
    return t("ui-more-time", { factor });
  }

  /** @param {Record<string, any>} change */
  async #renegotiate(change) {
    this.#extraTerms = { ...this.#extraTerms, ...change };
    await this.#client?.renegotiate(this.#capabilities());
  }

  /** @param {Partial<Settings>} change */
  #change(change) {
    const before = JSON.stringify(capabilitiesFor(this.#settings));
    this.#settings = { ...this.#settings, ...change };
    saveSettings(this.#settings);
    if (before === JSON.stringify(capabilitiesFor(this.#settings))) return;
    // What the user sets counts more than what the inspector tried.
    this.#extraTerms = {};
    this.#inspector.setTerms(this.#capabilities());
    this.#client?.renegotiate(this.#capabilities()).catch((error) => this.#say(t("page-not-sent", { why: String(error.message) })));
  }

  /** @param {string} text */
  #say(text) {
    this.#announcer.answer(text, phraseLanguage());
  }

  /** @param {string} view */
  #shown(view) {
    this.#inspector.show(view === "inspector");
    this.#operator.show(view === "operator");
  }
}

/** Puts the phrases of the user's language into the page. */
function localize() {
  document.documentElement.lang = phraseLanguage();
  document.documentElement.dir = directionOf(phraseLanguage());
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.getAttribute("data-t") ?? "");
  for (const element of document.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.getAttribute("data-t-label") ?? ""));
  document.title = t("page-title");
}

const [server] = await Promise.all([
  fetch("/page/settings.json").then((response) => response.json()),
  loadPhrases(loadSettings().languages),
]);
localize();
byId("main").hidden = false;
void new Page().start(server);
