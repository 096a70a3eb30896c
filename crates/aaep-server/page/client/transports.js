// How messages reach a producer: server-sent events with POST, or a WebSocket.

import { AaepError, refusalOf } from "./messages.js";
import { SseDecoder } from "./sse.js";

/** @typedef {import("./messages.js").Accepted} Accepted */

/**
 * What a transport reports.
 * @typedef {object} TransportEvents
 * @property {(accepted: Accepted) => void} accepted New terms.
 * @property {() => void} open The stream of events is open.
 * @property {(event: any, id: string) => void} event An event.
 * @property {(message: any) => void} message Another message.
 */

/**
 * @typedef {object} Address
 * @property {string} base The address of the server, without a slash at its end.
 * @property {() => string | undefined} token The bearer token, if there is one.
 */

/** How long the server may send nothing, in milliseconds. It sends a comment every 15 seconds. */
const SILENCE_MILLIS = 45_000;

/** How long the first bytes of a stream may take, in milliseconds. The server sends some at once. */
const FIRST_BYTES_MILLIS = 10_000;

/** @param {Address} address @param {Record<string, string>} [more] @returns {Record<string, string>} */
function headersFor(address, more = {}) {
  const token = address.token();
  return token === undefined ? more : { ...more, authorization: `Bearer ${token}` };
}

/**
 * Posts a message and returns the response if it is a success.
 * @param {Address} address @param {string} path @param {any} message @returns {Promise<Response>}
 */
async function post(address, path, message) {
  const headers = headersFor(address, { "content-type": "application/json" });
  const response = await fetch(address.base + path, {
    method: "POST",
    headers,
    body: JSON.stringify(message),
    credentials: "omit",
    cache: "no-store",
  });
  if (!response.ok) throw await refusalOf(response);
  return response;
}

/** Server-sent events and POST. The subscription outlives its connections. */
export class SseTransport {
  #address;
  #events;
  #abort = new AbortController();
  #location = "";
  /** Milliseconds that the server asks to wait before a new attempt. */
  retry = 2000;
  /** Whether a lost connection can be resumed. */
  canResume = true;

  /** @param {Address} address @param {TransportEvents} events */
  constructor(address, events) {
    this.#address = address;
    this.#events = events;
  }

  /** @param {any} request A subscription.request. */
  async subscribe(request) {
    const response = await post(this.#address, "/aaep/v1/subscriptions", request);
    this.#location = response.headers.get("location") ?? "";
    this.#events.accepted(await response.json());
  }

  /** Reads the stream until it ends. @param {string} lastEventId The last event that was received, or an empty text. */
  async run(lastEventId) {
    const abort = new AbortController();
    this.#abort = abort;
    /** @type {Record<string, string>} */
    const wanted = { accept: "text/event-stream" };
    if (lastEventId) wanted["last-event-id"] = lastEventId;
    let timer = setTimeout(() => abort.abort(), FIRST_BYTES_MILLIS);
    try {
      const response = await fetch(this.#address.base + this.#location, {
        headers: headersFor(this.#address, wanted),
        credentials: "omit",
        cache: "no-store",
        signal: abort.signal,
      });
      if (!response.ok || !response.body) throw await refusalOf(response);
      const decoder = new SseDecoder();
      const reader = response.body.getReader();
      let isOpen = false;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENCE_MILLIS);
        if (!isOpen) this.#events.open();
        isOpen = true;
        for (const event of decoder.push(value)) this.#dispatch(event);
        if (decoder.retry) this.retry = decoder.retry;
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  /** @param {import("./sse.js").SseEvent} event */
  #dispatch(event) {
    const message = parse(event.data);
    if (message === undefined) return;
    if (event.name === "aaep.event") this.#events.event(message, event.id);
    else if (event.name === "aaep.message") this.#events.message(message);
  }

  /** Sends a message. Returns the answer, if there is one. @param {any} message @returns {Promise<any>} */
  async send(message) {
    const response = await post(this.#address, "/aaep/v1/replies", message);
    const answer = response.status === 200 ? await response.json() : undefined;
    if (answer?.type === "subscription.accepted") this.#events.accepted(answer);
    return answer;
  }

  /** Ends the connection. */
  close() {
    this.#abort.abort();
  }
}

/**
 * A WebSocket. It is the fallback where a proxy holds streams back. It cannot send an Authorization header, and a token must
 * not be in a URL, so it is used without credentials only. The subscription ends with the connection.
 */
export class WebSocketTransport {
  #address;
  #events;
  /** @type {WebSocket | undefined} */
  #socket;
  /** @type {((error?: unknown) => void) | undefined} */
  #ended;
  retry = 2000;
  canResume = false;

  /** @param {Address} address @param {TransportEvents} events */
  constructor(address, events) {
    this.#address = address;
    this.#events = events;
  }

  /** @param {any} request A subscription.request. @returns {Promise<void>} */
  subscribe(request) {
    if (this.#address.token() !== undefined) {
      throw new AaepError("A WebSocket cannot send the token.", "transport_unavailable");
    }
    const socket = new WebSocket(this.#address.base.replace(/^http/, "ws") + "/aaep/v1/ws", "aaep.v1");
    this.#socket = socket;
    return new Promise((resolve, reject) => {
      socket.onopen = () => socket.send(JSON.stringify(request));
      socket.onclose = () => {
        const error = new AaepError("The WebSocket could not be opened.", "transport_unavailable");
        reject(error);
        this.#ended?.();
      };
      socket.onmessage = ({ data }) => {
        const message = parse(String(data));
        if (message === undefined) return;
        if (message.type === "subscription.accepted") {
          this.#events.accepted(message);
          resolve();
        } else if (message.type === "subscription.rejected") {
          reject(new AaepError(String(message.reason_message), String(message.reason_code)));
        } else if (String(message.type).startsWith("aaep:") || message.event_id) {
          this.#events.event(message, String(message.event_id));
        } else this.#events.message(message);
      };
    });
  }

  /** Waits until the connection ends. @returns {Promise<void>} */
  run() {
    this.#events.open();
    return new Promise((resolve) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) resolve();
      this.#ended = () => resolve();
    });
  }

  /** @param {any} message @returns {Promise<undefined>} */
  async send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) throw new AaepError("Not connected.", "transport_unavailable");
    this.#socket.send(JSON.stringify(message));
    return undefined;
  }

  close() {
    this.#socket?.close();
  }
}

/** @param {string} text @returns {any} The value, or nothing if the text is not a JSON object. */
function parse(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
