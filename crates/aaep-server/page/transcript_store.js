// What happened, as entries of bounded number and size.

/**
 * @typedef {"session" | "state" | "tool" | "progress" | "text" | "question" | "handoff" | "result" | "failure" | "other"} EntryKind
 */

/**
 * @typedef {object} Entry
 * @property {number} id Grows by one.
 * @property {string} session
 * @property {EntryKind} kind
 * @property {string} text
 * @property {string} lang
 * @property {Date} time
 * @property {import("./speakable.js").Block[]} [blocks] The content of an output.
 * @property {boolean} isRead
 */

/** The most entries that are kept. */
export const MAX_ENTRIES = 5000;

/** The most characters that are kept. */
export const MAX_CHARS = 4_000_000;

/** The most sessions whose titles are kept. */
const MAX_SESSIONS = 500;

export class TranscriptStore {
  /** @type {Entry[]} */
  entries = [];
  /** The titles of sessions. @type {Map<string, {agent: string, title: string, lang: string, isOver: boolean}>} */
  sessions = new Map();
  /** How many entries were removed, because there were too many. */
  removed = 0;
  #chars = 0;
  #lastId = 0;

  /** @param {Omit<Entry, "id" | "isRead">} entry @returns {Entry} */
  add(entry) {
    this.#lastId += 1;
    const added = { ...entry, id: this.#lastId, isRead: false };
    this.entries.push(added);
    this.#chars += added.text.length;
    if (this.entries.length > MAX_ENTRIES || this.#chars > MAX_CHARS) this.#removeOldest();
    return added;
  }

  /** Replaces the text of an entry that grows. @param {Entry} entry @param {string} text */
  update(entry, text) {
    this.#chars += text.length - entry.text.length;
    entry.text = text;
  }

  #removeOldest() {
    // Many at once, so that it happens rarely.
    const count = Math.max(1, Math.floor(this.entries.length / 10));
    for (const entry of this.entries.splice(0, count)) this.#chars -= entry.text.length;
    this.removed += count;
    while (this.sessions.size > MAX_SESSIONS) this.sessions.delete([...this.sessions.keys()][0] ?? "");
  }

  /** @param {{kind: string, search: string}} filter @returns {Entry[]} */
  find({ kind, search }) {
    const wanted = search.trim().toLowerCase();
    return this.entries.filter((entry) => (kind === "" || GROUPS[kind]?.includes(entry.kind)) && (wanted === "" || entry.text.toLowerCase().includes(wanted)));
  }

  /** @param {(entry: Entry) => string} nameOf @returns {string} All of it, as text. */
  toText(nameOf) {
    /** @type {string[]} */
    const lines = [];
    let session = "";
    for (const entry of this.entries) {
      if (entry.session !== session) {
        session = entry.session;
        const known = this.sessions.get(session);
        lines.push("", `# ${known?.agent ?? ""}: ${known?.title ?? session}`);
      }
      lines.push(`${entry.time.toISOString()} ${nameOf(entry)}: ${entry.text}`);
    }
    return `${lines.join("\n").trim()}\n`;
  }
}

/** The kinds that a user can choose. @type {Record<string, EntryKind[]>} */
export const GROUPS = {
  questions: ["question"],
  text: ["text"],
  tools: ["tool"],
  results: ["result", "failure", "handoff", "session"],
  states: ["state", "progress", "other"],
};
