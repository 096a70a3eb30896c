// The transcript: sessions under headings, each event an item. Only a window of it is in the page, so that long sessions stay
// fast; everything in the window is ordinary content that a screen reader can browse.

import { isTerminal, kindOf } from "./client/index.js";
import { expose } from "./deception.js";
import { byId, choice, download, el, labelled, replaceChildren, set } from "./dom.js";
import { t } from "./phrases.js";
import { nameOfCode, OutputText, withoutMarks } from "./speakable.js";
import { agentName, languageAttributes, pick, primaryLanguage, summary } from "./texts.js";
import { TranscriptStore } from "./transcript_store.js";

/**
 * @typedef {import("./client/messages.js").AaepEvent} AaepEvent
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./transcript_store.js").Entry} Entry
 * @typedef {import("./transcript_store.js").EntryKind} EntryKind
 */

/** Entries in the page at once. */
const WINDOW = 200;

/** The most outputs that may still grow. */
const MAX_GROWING = 64;

export class Transcript {
  #store = new TranscriptStore();
  #settings;
  #actions;
  #list = byId("transcript-list");
  /** @type {Map<string, {entry: Entry, output: OutputText}>} */
  #growing = new Map();
  #filter = { kind: "", search: "" };
  /** The number of entries after the window, or 0 at the end. */
  #after = 0;
  /** @type {number | undefined} */
  #drawing;

  /**
   * @param {() => Settings} settings
   * @param {{say: (text: string) => void, cancel: (session: string) => void}} actions
   */
  constructor(settings, actions) {
    this.#settings = settings;
    this.#actions = actions;
    this.#makeControls();
    this.#list.addEventListener("keydown", (event) => this.#keydown(event));
    this.#list.addEventListener("focusin", (event) => this.#focused(event.target));
    this.#draw();
  }

  #makeControls() {
    const kinds = choice([["", t("page-kind-all")], ["questions", t("page-kind-questions")], ["text", t("page-kind-text")],
      ["tools", t("page-kind-tools")], ["results", t("page-kind-results")], ["states", t("page-kind-states")]], "");
    kinds.addEventListener("change", () => this.#setFilter({ ...this.#filter, kind: kinds.value }));
    const search = el("input", { type: "search", autocomplete: "off" });
    search.addEventListener("change", () => this.#setFilter({ ...this.#filter, search: search.value }));
    byId("transcript-controls").append(
      labelled(t("page-show"), kinds),
      labelled(t("page-search"), search),
      el("button", { type: "button", click: () => this.#nextUnread() }, t("page-next-unread")),
      el("button", { type: "button", click: () => this.#export() }, t("page-export")),
    );
    byId("transcript-older").append(el("button", { type: "button", click: () => this.#move(WINDOW / 2) }, t("page-earlier")));
    byId("transcript-newer").append(
      el("button", { type: "button", click: () => this.#move(-WINDOW / 2) }, t("page-newer")),
      el("button", { type: "button", click: () => this.#move(-Infinity) }, t("page-newest")),
    );
  }

  /** @param {AaepEvent} event */
  add(event) {
    const settings = this.#settings();
    const kind = kindOf(event);
    this.#noteSession(event, settings);
    if (kind === "output.streaming") this.#addText(event, settings);
    else {
      const text = entryText(event, settings);
      if (!text) return;
      this.#store.add({ session: event.session_id, kind: entryKind(event), ...text, time: timeOf(event) });
      this.#added();
    }
  }

  /** @param {AaepEvent} event @param {Settings} settings */
  #noteSession(event, settings) {
    const { sessions } = this.#store;
    const known = sessions.get(event.session_id);
    const started = kindOf(event) === "session.started" ? summary(event, settings) : undefined;
    if (!known || started) {
      sessions.set(event.session_id, {
        agent: expose(agentName(event)),
        title: expose(started?.text ?? known?.title ?? ""),
        lang: started?.lang ?? primaryLanguage(event, settings),
        isOver: false,
      });
    }
    const session = sessions.get(event.session_id);
    if (session && isTerminal(event)) {
      session.isOver = true;
      this.#list.querySelector(`section[data-session="${CSS.escape(event.session_id)}"] .stop`)?.remove();
    }
  }

  /** @param {AaepEvent} event @param {Settings} settings */
  #addText(event, settings) {
    const key = `${event.session_id} ${event["output_id"] ?? ""}`;
    const known = this.#growing.get(key);
    const output = known?.output ?? new OutputText();
    output.add(expose(String(event["chunk"] ?? "")), String(event["content_type"] ?? ""));
    const text = output.text.trim();
    if (text === "") return;
    const lang = String(event["language"] ?? primaryLanguage(event, settings));
    const entry = known?.entry ?? this.#store.add({ session: event.session_id, kind: "text", text, lang, time: timeOf(event) });
    entry.blocks = output.blocks().map((block) => (block.kind === "text" && output.isMarkdown ? { kind: "text", text: withoutMarks(block.text) } : block));
    if (known) this.#store.update(entry, text);
    this.#growing.set(key, { entry, output });
    if (event["complete"] === true) this.#growing.delete(key);
    else if (this.#growing.size > MAX_GROWING) this.#growing.delete([...this.#growing.keys()][0] ?? "");
    const item = known && this.#list.querySelector(`li[data-entry="${entry.id}"]`);
    if (item) replaceChildren(item, ...this.#content(entry));
    else if (!known) this.#added();
  }

  #added() {
    if (this.#after > 0) this.#after += 1;
    this.#drawSoon();
  }

  /** Adds new entries at most ten times a second, however many events come. */
  #drawSoon() {
    this.#drawing ??= setTimeout(() => {
      this.#drawing = undefined;
      this.#appendNew();
    }, 100);
  }

  /** @returns {Entry[]} */
  #window() {
    const all = this.#store.find(this.#filter);
    this.#after = Math.min(this.#after, Math.max(0, all.length - WINDOW));
    const end = all.length - this.#after;
    return all.slice(Math.max(0, end - WINDOW), end);
  }

  #draw() {
    const entries = this.#window();
    const sections = /** @type {Element[]} */ ([]);
    replaceChildren(this.#list);
    for (const entry of entries) this.#append(entry, sections);
    this.#drawFrame(entries);
  }

  /** Adds what is new at the end. Nothing else changes, so that a screen reader keeps its place. */
  #appendNew() {
    if (this.#after === 0) {
      const last = [...this.#list.querySelectorAll("li[data-entry]")].at(-1);
      const lastId = Number(last?.getAttribute("data-entry") ?? 0);
      const sections = [...this.#list.querySelectorAll("section")];
      for (const entry of this.#window()) if (entry.id > lastId) this.#append(entry, sections);
      this.#trim();
    }
    this.#drawFrame(this.#window());
  }

  /** Removes the oldest entries from the page if there are far too many, unless the user is among them. */
  #trim() {
    const items = [...this.#list.querySelectorAll("li[data-entry]")];
    if (items.length <= 2 * WINDOW) return;
    const oldest = items.slice(0, items.length - WINDOW);
    if (oldest.some((item) => item.contains(document.activeElement))) return;
    for (const item of oldest) item.remove();
    for (const section of this.#list.querySelectorAll("section")) {
      if (!section.querySelector("li") && !section.contains(document.activeElement)) section.remove();
    }
  }

  /** @param {Entry[]} entries */
  #drawFrame(entries) {
    const all = this.#store.find(this.#filter).length;
    byId("transcript-older").hidden = all - this.#after <= WINDOW;
    byId("transcript-newer").hidden = this.#after === 0;
    byId("transcript-empty").hidden = entries.length > 0;
    const removed = byId("transcript-removed");
    removed.hidden = this.#store.removed === 0;
    removed.textContent = t("page-removed", { count: this.#store.removed });
    // One entry can be reached by Tab; the arrow keys go on from there.
    const items = this.#list.querySelectorAll("li[data-entry]");
    const last = items[items.length - 1];
    if (last && !this.#list.querySelector("li[tabindex='0']")) set(last, { tabindex: 0 });
  }

  /** @param {Entry} entry @param {Element[]} sections */
  #append(entry, sections) {
    let section = sections.find((one) => one.getAttribute("data-session") === entry.session);
    if (!section) {
      section = this.#section(entry);
      sections.push(section);
      this.#list.append(section);
    }
    section.querySelector("ol")?.append(this.#item(entry));
  }

  /** @param {Entry} entry @returns {HTMLElement} */
  #section(entry) {
    const session = this.#store.sessions.get(entry.session);
    const title = session?.title ? t("agent-says", { agent: session.agent, text: session.title }) : (session?.agent ?? entry.session);
    const heading = el("h3", languageAttributes(session?.lang ?? ""), title);
    const stop = session && !session.isOver
      ? el("button", { type: "button", class: "stop", click: () => this.#actions.cancel(entry.session) }, t("page-stop", { agent: session.agent }))
      : undefined;
    // Not a landmark: there may be many, and the heading leads here.
    return el("section", { "data-session": entry.session }, heading, stop, el("ol"));
  }

  /** @param {Entry} entry @returns {HTMLLIElement} */
  #item(entry) {
    const item = el("li", { "data-entry": entry.id, "data-kind": entry.kind, tabindex: -1 }, ...this.#content(entry));
    if (!entry.isRead) item.classList.add("unread");
    return item;
  }

  /** @param {Entry} entry @returns {(Node | string)[]} */
  #content(entry) {
    const paragraph = (/** @type {string} */ text) => el("p", languageAttributes(entry.lang), text);
    const blocks = entry.blocks ?? [{ kind: /** @type {const} */ ("text"), text: entry.text }];
    const content = blocks.map((block) => (block.kind === "code" ? codeElement(block) : paragraph(block.text)));
    return [el("span", { class: "kind" }, nameOf(entry)), ": ", ...content];
  }

  /** @param {EventTarget | null} target */
  #focused(target) {
    const item = target instanceof Element ? target.closest("li[data-entry]") : null;
    if (!item) return;
    for (const other of this.#list.querySelectorAll("li[tabindex='0']")) set(other, { tabindex: -1 });
    set(item, { tabindex: 0 });
    item.classList.remove("unread");
    const entry = this.#store.entries.find(({ id }) => id === Number(item.getAttribute("data-entry")));
    if (entry) entry.isRead = true;
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    const item = event.target instanceof Element ? event.target.closest("li[data-entry]") : null;
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const items = /** @type {HTMLElement[]} */ ([...this.#list.querySelectorAll("li[data-entry]")]);
    const at = items.indexOf(/** @type {HTMLElement} */ (item));
    const other = (/** @type {string} */ name, /** @type {number} */ step) => {
      const value = name === "session" ? sessionOf(item) : item.getAttribute(name);
      const isNext = (/** @type {HTMLElement} */ one) => (name === "session" ? sessionOf(one) !== value : one.getAttribute(name) === value);
      return step > 0 ? items.slice(at + 1).find(isNext) : items.slice(0, at).findLast(isNext);
    };
    /** @type {Record<string, () => HTMLElement | undefined>} */
    const moves = {
      ArrowDown: () => items[at + 1],
      ArrowUp: () => items[at - 1],
      Home: () => items[0],
      End: () => items[items.length - 1],
      PageDown: () => other("session", 1),
      PageUp: () => other("session", -1),
      k: () => other("data-kind", 1),
      K: () => other("data-kind", -1),
      u: () => items.slice(at + 1).find((one) => one.classList.contains("unread")),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move()?.focus();
  }

  #nextUnread() {
    this.#after = 0;
    const next = this.#list.querySelector("li.unread");
    if (next instanceof HTMLElement) next.focus();
    else this.#actions.say(t("page-no-unread"));
  }

  /** @param {{kind: string, search: string}} filter */
  #setFilter(filter) {
    this.#filter = filter;
    this.#after = 0;
    this.#draw();
    if (filter.kind || filter.search) this.#actions.say(t("page-found", { count: this.#store.find(filter).length }));
  }

  /** @param {number} entries */
  #move(entries) {
    this.#after = Math.max(0, this.#after + entries);
    this.#draw();
    const [first] = this.#list.querySelectorAll("li[data-entry]");
    if (first instanceof HTMLElement) first.focus();
  }

  #export() {
    download("transcript.txt", "text/plain;charset=utf-8", this.#store.toText(nameOf));
  }
}

/** @param {Element} item @returns {string | null | undefined} */
function sessionOf(item) {
  return item.closest("section")?.getAttribute("data-session");
}

/** @param {import("./speakable.js").Block & {kind: "code"}} block @returns {HTMLElement} */
function codeElement(block) {
  return el("figure", {}, el("figcaption", {}, nameOfCode(block)), el("pre", { dir: "ltr", translate: "no" }, el("code", {}, block.text)));
}

/** @param {AaepEvent} event @returns {Date} */
function timeOf(event) {
  const time = new Date(event.timestamp);
  return Number.isNaN(time.getTime()) ? new Date() : time;
}

/** @param {AaepEvent} event @returns {EntryKind} */
function entryKind(event) {
  /** @type {Record<string, EntryKind>} */
  const kinds = {
    "session.started": "session",
    "session.completed": "result",
    "session.errored": "failure",
    "session.cancelled": "result",
    "state.changed": "state",
    "tool.invoked": "tool",
    "tool.completed": event["status"] === "success" ? "tool" : "failure",
    "progress.updated": "progress",
    "awaiting.confirmation": "question",
    "awaiting.clarification": "question",
    "handoff.requested": "handoff",
  };
  return kinds[kindOf(event)] ?? "other";
}

/** @param {AaepEvent} event @param {Settings} settings @returns {import("./texts.js").LocalText | undefined} */
function entryText(event, settings) {
  const fields = { "awaiting.confirmation": ["action", "consequence"], "awaiting.clarification": ["question", "context"], "handoff.requested": ["reason"] };
  const own = /** @type {string[] | undefined} */ (fields[/** @type {keyof typeof fields} */ (kindOf(event))]);
  const texts = own ? own.map((name) => pick(event, [name], settings)) : [summary(event, settings)];
  if (kindOf(event) === "tool.completed" && !texts[0]) texts.push(pick(event, ["error_message"], settings));
  const found = texts.filter((text) => text !== undefined);
  const [first] = found;
  return first && { text: expose(found.map(({ text }) => text).join(" ")), lang: first.lang };
}

/** @param {Entry} entry @returns {string} */
export function nameOf(entry) {
  const names = {
    session: "page-name-session", state: "page-name-state", tool: "page-name-tool", progress: "page-name-progress",
    text: "page-name-text", question: "page-name-question", handoff: "page-name-handoff", result: "page-name-result",
    failure: "page-name-failure", other: "page-name-other",
  };
  return t(names[entry.kind]);
}
