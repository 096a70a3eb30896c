// Decodes server-sent events from bytes. EventSource cannot send an Authorization header, and a token must not be in a URL.

/** @typedef {{name: string, id: string, data: string}} SseEvent */

/** The most characters of one event. A message of the protocol has at most 1 MiB. */
const MAX_EVENT_CHARS = 2 * 1024 * 1024;

export class SseDecoder {
  #text = "";
  #decoder = new TextDecoder();
  #name = "";
  #id = "";
  /** @type {string[]} */
  #data = [];
  #size = 0;
  /** The interval after which the server wants to be asked again, in milliseconds. */
  retry = 0;

  /**
   * Adds bytes and returns the events that are complete.
   * @param {Uint8Array} bytes
   * @returns {SseEvent[]}
   */
  push(bytes) {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    /** @type {SseEvent[]} */
    const events = [];
    let start = 0;
    for (;;) {
      const end = this.#lineEnd(start);
      if (end < 0) break;
      const line = this.#text.slice(start, end);
      start = end + (this.#text.startsWith("\r\n", end) ? 2 : 1);
      const event = this.#line(line);
      if (event) events.push(event);
    }
    this.#text = this.#text.slice(start);
    if (this.#size + this.#text.length > MAX_EVENT_CHARS) throw new Error("An event is too large.");
    return events;
  }

  /** @param {number} from @returns {number} */
  #lineEnd(from) {
    const newline = this.#text.indexOf("\n", from);
    const carriage = this.#text.indexOf("\r", from);
    // A carriage return at the end may be the first half of a line end.
    if (carriage >= 0 && (newline < 0 || carriage < newline)) return carriage + 1 < this.#text.length ? carriage : -1;
    return newline;
  }

  /** @param {string} line @returns {SseEvent | undefined} */
  #line(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
    else if (field === "data") {
      this.#data.push(value);
      this.#size += value.length;
    }
    return undefined;
  }

  /** @returns {SseEvent | undefined} */
  #dispatch() {
    const event = { name: this.#name || "message", id: this.#id, data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.#name = "";
    this.#data = [];
    this.#size = 0;
    return isEmpty ? undefined : event;
  }
}
