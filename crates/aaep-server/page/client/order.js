// Recognizes events that come twice, and numbers that are missing.

/** @typedef {import("./messages.js").AaepEvent} AaepEvent */

/** How many event ids are remembered. A server repeats at most what it keeps for a subscriber that resumes. */
const MAX_IDS = 8192;

/** How many sessions are counted. */
const MAX_SESSIONS = 256;

export class EventOrder {
  /** @type {Set<string>} */
  #seen = new Set();
  /** @type {Map<string, number>} */
  #numbers = new Map();

  /** Forgets the numbers: a new subscription counts anew. Ids stay known. */
  restart() {
    this.#numbers.clear();
  }

  /**
   * @param {AaepEvent} event
   * @returns {{isNew: boolean, missing: number}} Whether it was not received before, and how many events before it are missing.
   */
  admit(event) {
    if (this.#seen.has(event.event_id)) return { isNew: false, missing: 0 };
    this.#seen.add(event.event_id);
    if (this.#seen.size > MAX_IDS) deleteOldest(this.#seen);
    return { isNew: true, missing: this.#missingBefore(event) };
  }

  /** @param {AaepEvent} event @returns {number} */
  #missingBefore(event) {
    const number = event["sequence_number"];
    if (typeof number !== "number") return 0;
    const last = this.#numbers.get(event.session_id);
    this.#numbers.set(event.session_id, Math.max(number, last ?? number));
    if (this.#numbers.size > MAX_SESSIONS) deleteOldest(this.#numbers);
    return last === undefined ? 0 : Math.max(0, number - last - 1);
  }
}

/** @param {Set<string> | Map<string, number>} collection */
function deleteOldest(collection) {
  const oldest = collection.keys().next();
  if (!oldest.done) collection.delete(oldest.value);
}
