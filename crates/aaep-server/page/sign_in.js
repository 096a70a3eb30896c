// Asks for a token. It is kept in memory only: not in the address, not in storage.

import { byId, el, labelled, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";

/** @param {string} problem Why a token is needed again, or an empty text. @returns {Promise<string>} */
export function askForToken(problem) {
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const why = problem === "" ? undefined : el("p", { id: "sign-in-problem", class: "problem" }, problem);
  const form = el("form", {}, labelled(t("page-token"), input, t("page-token-hint")), el("button", { type: "submit" }, t("page-sign-in")));
  const section = byId("sign-in");
  replaceChildren(section, el("h2", { id: "sign-in-heading", tabindex: -1 }, t("page-sign-in")), why, form);
  section.hidden = false;
  input.focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const token = input.value.trim();
      if (token === "") return;
      input.value = "";
      section.hidden = true;
      replaceChildren(section);
      byId("heading").focus();
      resolve(token);
    });
  });
}
