// Passes utterances to the user's screen reader, one at a time and no faster than they can be spoken.

import { isChromium } from "./dom.js";

/**
 * @typedef {import("./settings.js").Settings} Settings
 * @typedef {import("./utterances.js").Utterance} Utterance
 */

/** The shortest time between two utterances, in milliseconds. Closer ones are spoken out of order by some. */
const MIN_GAP_MILLIS = 250;

/** The longest time that one utterance holds back the next, in milliseconds. */
const MAX_GAP_MILLIS = 8000;

/** The most utterances that wait. Of more, the oldest that are not urgent are left out, and their number is said. */
const MAX_WAITING = 30;

/** Utterances that stay in a live region: removing one at once could silence it. */
const KEPT_LINES = 2;

export class Announcer {
  #polite;
  #assertive;
  #settings;
  #leftOut;
  /** @type {Utterance[]} */
  #waiting = [];
  #dropped = 0;
  #isHeld = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {HTMLElement} polite A live region that is empty. @param {HTMLElement} assertive Another one.
   * @param {() => Settings} settings
   * @param {(count: number) => string} leftOut Says that so many utterances were left out.
   */
  constructor(polite, assertive, settings, leftOut) {
    this.#polite = polite;
    this.#assertive = assertive;
    this.#settings = settings;
    this.#leftOut = leftOut;
  }

  /** Holds back what is not urgent, while a question is open: nothing on a page can overtake queued speech. @param {boolean} isHeld */
  hold(isHeld) {
    this.#isHeld = isHeld;
    if (!isHeld) this.#pump();
  }

  /** Says something when its turn comes. @param {Utterance[]} utterances */
  say(utterances) {
    for (const one of utterances) {
      if (one.isUrgent) this.#waiting.splice(this.#waiting.findLastIndex((other) => other.isUrgent) + 1, 0, one);
      else this.#waiting.push(one);
    }
    while (this.#waiting.length > MAX_WAITING) {
      const oldest = this.#waiting.findIndex((one) => !one.isUrgent);
      this.#waiting.splice(Math.max(oldest, 0), 1);
      this.#dropped += 1;
    }
    this.#pump();
  }

  /**
   * Says something now, as the response to something that the user did. It is not assertive: that would make screen readers
   * drop what waits.
   * @param {string} text @param {string} lang
   */
  answer(text, lang) {
    clearTimeout(this.#timer);
    this.#start({ text, lang, isUrgent: false });
  }

  #pump() {
    if (this.#timer !== undefined) return;
    const next = this.#take();
    if (next !== undefined) this.#start(next);
  }

  /** Says something, and lets the next one wait for as long as it takes. @param {Utterance} next */
  #start(next) {
    this.#emit(next);
    const words = next.text.split(/\s+/).length;
    const millis = (words * 60_000) / this.#settings().pace;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#pump();
    }, Math.min(Math.max(millis, MIN_GAP_MILLIS), MAX_GAP_MILLIS));
  }

  /** @returns {Utterance | undefined} */
  #take() {
    if (this.#isHeld) {
      const urgent = this.#waiting.findIndex((one) => one.isUrgent);
      return urgent < 0 ? undefined : this.#waiting.splice(urgent, 1)[0];
    }
    if (this.#dropped > 0) {
      const text = this.#leftOut(this.#dropped);
      this.#dropped = 0;
      return { text, lang: "", isUrgent: false };
    }
    return this.#waiting.shift();
  }

  /** @param {Utterance} one */
  #emit(one) {
    const { announcing, voice, pace } = this.#settings();
    if (voice) speak(one, pace);
    if (announcing === "off") return;
    if (announcing === "automatic" && hasWorkingAriaNotify()) {
      document.ariaNotify?.(one.text, { priority: one.isUrgent ? "high" : "normal" });
      return;
    }
    const region = one.isUrgent ? this.#assertive : this.#polite;
    const line = document.createElement("p");
    line.textContent = one.text;
    if (one.lang) line.lang = one.lang;
    region.append(line);
    while (region.childElementCount > KEPT_LINES) region.firstElementChild?.remove();
  }
}

/**
 * Whether `ariaNotify` reaches screen readers. Firefox has the function, but Orca hears nothing of it.
 * @returns {boolean}
 */
export function hasWorkingAriaNotify() {
  return typeof document.ariaNotify === "function" && isChromium();
}

/** @param {Utterance} one @param {number} pace */
function speak(one, pace) {
  if (!("speechSynthesis" in window)) return;
  if (one.isUrgent) speechSynthesis.cancel();
  const spoken = new SpeechSynthesisUtterance(one.text);
  if (one.lang) spoken.lang = one.lang;
  // Voices speak about 180 words a minute at their normal rate.
  spoken.rate = Math.min(Math.max(pace / 180, 0.5), 3);
  speechSynthesis.speak(spoken);
}

/** Plays a short tone, if the browser allows it. */
export function beep() {
  const context = new AudioContext();
  const tone = context.createOscillator();
  const volume = context.createGain();
  volume.gain.value = 0.1;
  tone.connect(volume).connect(context.destination);
  tone.start();
  tone.stop(context.currentTime + 0.15);
  tone.onended = () => void context.close();
}
