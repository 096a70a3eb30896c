// The views of the page, as tabs: one stop for the Tab key, and arrow keys between them.

import { byId, set } from "./dom.js";

export class Tabs {
  /** @type {HTMLElement[]} */
  #tabs;
  #onShown;

  /** @param {(view: string) => void} onShown Called when a view is shown. */
  constructor(onShown) {
    this.#onShown = onShown;
    this.#tabs = [...byId("tabs").querySelectorAll("[role=tab]")].filter((tab) => tab instanceof HTMLElement);
    for (const tab of this.#tabs) tab.addEventListener("click", () => this.show(viewOf(tab)));
    byId("tabs").addEventListener("keydown", (event) => this.#keydown(event));
  }

  /** @param {string} view */
  show(view) {
    for (const tab of this.#tabs) {
      const isShown = viewOf(tab) === view;
      set(tab, { "aria-selected": String(isShown), tabindex: isShown ? 0 : -1 });
      byId(`view-${viewOf(tab)}`).hidden = !isShown;
    }
    this.#onShown(view);
  }

  /** @param {string} view @param {boolean} isOffered */
  offer(view, isOffered) {
    byId(`tab-${view}`).hidden = !isOffered;
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    const tabs = this.#tabs.filter((tab) => !tab.hidden);
    const at = tabs.findIndex((tab) => tab === document.activeElement);
    const forward = document.documentElement.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const backward = document.documentElement.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
    const next = { [forward]: at + 1, [backward]: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    const tab = next === undefined ? undefined : tabs[next % tabs.length];
    if (!tab) return;
    event.preventDefault();
    this.show(viewOf(tab));
    tab.focus();
  }
}

/** @param {HTMLElement} tab @returns {string} */
function viewOf(tab) {
  return tab.id.replace("tab-", "");
}
