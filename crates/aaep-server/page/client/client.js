// A subscriber: it subscribes, receives events, answers questions, changes its terms, and resumes after a lost connection.

import { AAEP_VERSION, AaepError, now } from "./messages.js";
import { EventOrder } from "./order.js";
import { Prompts } from "./prompts.js";
import { SseTransport, WebSocketTransport } from "./transports.js";

/**
 * @typedef {import("./messages.js").AaepEvent} AaepEvent
 * @typedef {import("./messages.js").Accepted} Accepted
 * @typedef {import("./messages.js").Capabilities} Capabilities
 * @typedef {import("./messages.js").Decision} Decision
 * @typedef {import("./prompts.js").Prompt} Prompt
 * @typedef {import("./prompts.js").Closing} Closing
 */

/**
 * - `connecting`: for the first time.
 * - `connected`
 * - `reconnecting`: the connection was lost; what happens meanwhile comes later.
 * - `ended`: the producer has closed the subscription. The client tries to subscribe again, slowly.
 * - `refused`: the producer does not serve this client; see the error.
 * - `closed`: by this side.
 * @typedef {"connecting" | "connected" | "reconnecting" | "ended" | "refused" | "closed"} ConnectionState
 */

/**
 * What the client reports. Each handler is optional.
 * @typedef {object} Handlers
 * @property {(event: AaepEvent) => void} [event] An event, each once and in order.
 * @property {(prompt: Prompt) => void} [question] A question that waits for an answer. Called before `event`.
 * @property {(prompt: Prompt, how: Closing, outcome: string) => void} [questionClosed] A question is no longer open.
 * @property {(state: ConnectionState, error?: AaepError) => void} [connection]
 * @property {(accepted: Accepted) => void} [terms] The terms of the subscription, at first and after each change.
 * @property {(missing: number) => void} [gap] So many events are missing.
 */

/**
 * @typedef {object} Options
 * @property {string} [base] The address of the server. Default: the origin of the page.
 * @property {string} subscriberId
 * @property {string} [subscriberName]
 * @property {Capabilities} capabilities
 * @property {string} [token] A bearer token. It is kept in memory and sent in the Authorization header only.
 * @property {"sse" | "websocket"} [transport] Default: `sse`, and `websocket` if a stream does not come through.
 */

/** The longest pause between two attempts, in milliseconds. */
const MAX_PAUSE_MILLIS = 30_000;

/** Attempts to open a stream before the WebSocket is tried. */
const MAX_STREAM_ATTEMPTS = 3;

export class AaepClient {
  #options;
  #handlers;
  #order = new EventOrder();
  #prompts;
  /** @type {SseTransport | WebSocketTransport} */
  #transport;
  #transportName;
  #lastEventId = "";
  #capabilities;
  /** @type {Accepted | undefined} */
  #accepted;
  /** @type {ConnectionState} */
  #state = "connecting";
  #isClosed = false;
  /** Attempts in a row that brought no stream. */
  #failedStreams = 0;
  /** The last pause between two attempts, in milliseconds. */
  #pause = 0;
  /** @type {(() => void) | undefined} */
  #wake;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;

  /** @param {Options} options @param {Handlers} handlers */
  constructor(options, handlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#capabilities = options.capabilities;
    this.#prompts = new Prompts((prompt, how, outcome) => this.#handlers.questionClosed?.(prompt, how, outcome));
    this.#transportName = options.transport ?? "sse";
    this.#transport = this.#newTransport();
  }

  /** @returns {ConnectionState} */
  get state() {
    return this.#state;
  }

  /** @returns {Accepted | undefined} The terms. */
  get terms() {
    return this.#accepted;
  }

  /** @returns {string} The transport in use. */
  get transport() {
    return this.#transportName;
  }

  /** @returns {Prompt[]} The open questions, the oldest first. */
  get questions() {
    return this.#prompts.list();
  }

  /** Connects, and stays connected until `close` is called or the producer refuses. @returns {Promise<void>} */
  async run() {
    this.#ticking = setInterval(() => this.#prompts.tick(), 1000);
    while (!this.#isClosed) {
      try {
        if (!this.#accepted) await this.#subscribe();
        await this.#receive();
      } catch (error) {
        if (!this.#handleFailure(error)) break;
      }
      if (this.#isClosed) break;
      if (this.#state === "connected") this.#setState("reconnecting");
      this.#pause = Math.min(Math.max(this.#pause * 2, this.#transport.retry), MAX_PAUSE_MILLIS);
      await this.#sleep(this.#pause);
    }
    clearInterval(this.#ticking);
  }

  async #subscribe() {
    /** @type {Record<string, any>} */
    const request = {
      type: "subscription.request",
      aaep_version: AAEP_VERSION,
      subscriber_id: this.#options.subscriberId,
      capabilities: this.#capabilities,
    };
    if (this.#options.subscriberName) request["subscriber_name"] = this.#options.subscriberName;
    await this.#transport.subscribe(request);
  }

  /** Receives events until the connection ends. */
  async #receive() {
    this.#failedStreams += 1;
    await this.#transport.run(this.#lastEventId);
    if (!this.#transport.canResume) this.#forgetSubscription();
  }

  /** @param {unknown} error @returns {boolean} Whether to try again. */
  #handleFailure(error) {
    const failure = error instanceof AaepError ? error : undefined;
    if (failure?.status === 404 && this.#accepted) {
      // The server does not know the subscription any more: subscribe anew.
      this.#forgetSubscription();
      return true;
    }
    const isFinal = failure !== undefined && failure.code !== "rate_limit" && failure.status !== 503
      && failure.status !== 429 && failure.status !== 408;
    const fallsBack = this.#transportName === "sse" && this.#options.transport === undefined
      && this.#options.token === undefined
      && (failure?.status === 404 || this.#failedStreams >= MAX_STREAM_ATTEMPTS);
    if (fallsBack && (this.#accepted || failure?.status === 404)) {
      this.#useTransport("websocket");
      return true;
    }
    if (!this.#transport.canResume) {
      this.#forgetSubscription();
      if (this.#options.transport === undefined) this.#useTransport("sse");
      return true;
    }
    if (!isFinal) return true;
    this.#setState("refused", failure);
    this.#isClosed = true;
    return false;
  }

  #forgetSubscription() {
    this.#accepted = undefined;
    this.#lastEventId = "";
  }

  /** @param {"sse" | "websocket"} name */
  #useTransport(name) {
    this.#forgetSubscription();
    this.#failedStreams = 0;
    this.#transportName = name;
    this.#transport = this.#newTransport();
  }

  /** @returns {SseTransport | WebSocketTransport} */
  #newTransport() {
    const base = (this.#options.base ?? location.origin).replace(/\/$/, "");
    const address = { base, token: () => this.#options.token };
    const events = {
      accepted: (/** @type {Accepted} */ accepted) => this.#handleAccepted(accepted),
      open: () => {
        this.#failedStreams = 0;
        this.#pause = 0;
        this.#setState("connected");
      },
      event: (/** @type {AaepEvent} */ event, /** @type {string} */ id) => this.#handleEvent(event, id),
      message: (/** @type {any} */ message) => this.#handleMessage(message),
    };
    return this.#transportName === "sse" ? new SseTransport(address, events) : new WebSocketTransport(address, events);
  }

  /** @param {Accepted} accepted */
  #handleAccepted(accepted) {
    if (this.#accepted?.subscription_id !== accepted.subscription_id) {
      this.#order.restart();
      this.#prompts.restart();
    }
    this.#accepted = accepted;
    this.#handlers.terms?.(accepted);
  }

  /** @param {AaepEvent} event @param {string} id */
  #handleEvent(event, id) {
    if (typeof event.type !== "string" || typeof event.event_id !== "string" || typeof event.session_id !== "string") return;
    if (id) this.#lastEventId = id;
    const { isNew, missing } = this.#order.admit(event);
    if (!isNew) {
      // A question that is repeated may have lost its place meanwhile.
      if (event.type.includes(".awaiting.") && this.#prompts.get(String(event["reply_token"]))) this.#prompts.handle(event);
      return;
    }
    if (missing > 0) this.#handlers.gap?.(missing);
    const prompt = this.#prompts.handle(event);
    if (prompt) this.#handlers.question?.(prompt);
    this.#handlers.event?.(event);
  }

  /** @param {any} message */
  #handleMessage(message) {
    if (message.type !== "subscription.close") return;
    const needsToken = message.reason_code === "authentication_required";
    if (needsToken) {
      const text = String(message.reason_message ?? "");
      this.#setState("refused", new AaepError(text, "authentication_required", 401));
      this.#isClosed = true;
    } else {
      this.#forgetSubscription();
      this.#setState("ended", new AaepError(String(message.reason_message ?? ""), String(message.reason_code ?? "")));
    }
    this.#transport.close();
  }

  /** @param {ConnectionState} state @param {AaepError} [error] */
  #setState(state, error) {
    if (state === this.#state && !error) return;
    this.#state = state;
    this.#handlers.connection?.(state, error);
  }

  /** @param {number} millis @returns {Promise<void>} */
  #sleep(millis) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, millis);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Tries to connect now instead of later. */
  reconnectNow() {
    this.#wake?.();
  }

  /**
   * Answers a confirmation.
   * @param {string} token @param {Decision} decision @returns {Promise<void>}
   */
  confirm(token, decision) {
    const outcome = decision === "accept" ? "accepted" : "rejected";
    return this.#reply(token, { type: "confirmation.reply", decision }, outcome);
  }

  /**
   * Answers a clarification.
   * @param {string} token @param {string | number | boolean} response @returns {Promise<void>}
   */
  clarify(token, response) {
    return this.#reply(token, { type: "clarification.reply", response }, "answered");
  }

  /** @param {string} token @param {Record<string, any>} reply @param {string} outcome */
  async #reply(token, reply, outcome) {
    const prompt = this.#prompts.get(token);
    if (!prompt) throw new AaepError("The question is not open any more.", "gone");
    // A second press sends nothing.
    if (prompt.sent !== "") return;
    prompt.sent = outcome;
    try {
      await this.#send({ ...reply, reply_token: token });
      this.#prompts.close(token, "answered", "");
    } catch (error) {
      prompt.sent = "";
      throw error;
    }
  }

  /** Asks for other terms. @param {Capabilities} capabilities @returns {Promise<void>} */
  async renegotiate(capabilities) {
    this.#capabilities = capabilities;
    if (this.#accepted) await this.#send({ type: "subscription.renegotiate", capabilities });
  }

  /** Asks the agent of a session to stop. It decides itself what it does. @param {string} sessionId @returns {Promise<void>} */
  async cancel(sessionId) {
    await this.#send({ type: "cancellation:request", session_id: sessionId });
  }

  /** @param {Record<string, any>} message */
  async #send(message) {
    if (!this.#accepted) throw new AaepError("Not connected.", "transport_unavailable");
    const timed = message["type"] === "subscription.renegotiate" ? {} : { timestamp: now() };
    await this.#transport.send({ ...message, ...timed, subscription_id: this.#accepted.subscription_id });
  }

  /** Ends the subscription and the connection. @returns {Promise<void>} */
  async close() {
    this.#isClosed = true;
    if (this.#accepted) {
      const message = { type: "subscription.close", reason_code: "subscriber_shutdown" };
      await this.#transport.send({ ...message, subscription_id: this.#accepted.subscription_id }).catch(() => undefined);
    }
    this.#setState("closed");
    this.#transport.close();
    this.#wake?.();
    clearInterval(this.#ticking);
  }
}
