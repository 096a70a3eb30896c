// The messages of the protocol that a subscriber exchanges with a producer.

/**
 * @typedef {"accept" | "reject"} Decision
 * @typedef {{agent_id: string, agent_name?: string, agent_version?: string}} Producer
 * @typedef {{value: string, label: string}} Choice
 * @typedef {Record<string, any> & {type: string, event_id: string, session_id: string, timestamp: string,
 *   producer: Producer}} AaepEvent
 * @typedef {Record<string, any>} Capabilities
 * @typedef {{type: "subscription.accepted", subscription_id: string, aaep_version: string, producer: Producer,
 *   honored_capabilities: Capabilities, negotiation_notes?: string, manifest_uri?: string}} Accepted
 */

/** The version of the protocol that this client speaks. */
export const AAEP_VERSION = "1.0.0";

/** @param {AaepEvent} event @returns {string} The type without its prefix, such as `session.started`. */
export function kindOf(event) {
  return event.type.replace(/^aaep:agent\./, "");
}

/** @param {AaepEvent} event @returns {boolean} Whether the event ends its session. */
export function isTerminal(event) {
  return /^session\.(completed|errored|cancelled)$/.test(kindOf(event));
}

/** @returns {string} The current time, as a timestamp of the protocol. */
export function now() {
  return new Date().toISOString();
}

/**
 * An error that a person can read. `code` is the reason code of a rejection, or `problem`.
 */
export class AaepError extends Error {
  /** @param {string} message @param {string} code @param {number} [status] @param {number} [retryAfter] */
  constructor(message, code, status = 0, retryAfter = 0) {
    super(message);
    this.name = "AaepError";
    this.code = code;
    this.status = status;
    /** Seconds after which another attempt makes sense, or 0. */
    this.retryAfter = retryAfter;
  }
}

/**
 * Reads a refusal: a `subscription.rejected`, a `cancellation:refused`, or problem details.
 * @param {Response} response
 * @returns {Promise<AaepError>}
 */
export async function refusalOf(response) {
  /** @type {any} */
  const body = await response.json().catch(() => ({}));
  const message = body.reason_message ?? body.detail ?? `The server answered ${response.status}.`;
  const code = body.reason_code ?? (response.status === 401 ? "authentication_required" : "problem");
  const retryAfter = body.retry_after_seconds ?? Number(response.headers.get("retry-after") ?? 0);
  return new AaepError(String(message), String(code), response.status, Number(retryAfter) || 0);
}
