// Starts scenes of the demo.

import { refusalOf } from "./client/messages.js";
import { byId, el, replaceChildren } from "./dom.js";
import { t } from "./phrases.js";

/** @param {() => string | undefined} token @param {(text: string) => void} say */
export async function showScenes(token, say) {
  /** @returns {Record<string, string>} */
  const headers = () => (token() === undefined ? {} : { authorization: `Bearer ${token()}` });
  const response = await fetch("/demo/scenes", { headers: headers(), cache: "no-store", credentials: "omit" }).catch(() => undefined);
  if (!response?.ok) return;
  /** @type {{scenes: {name: string, description: string}[]}} */
  const { scenes } = await response.json();
  const start = async (/** @type {string} */ name) => {
    const answer = await fetch(`/demo/scenes/${encodeURIComponent(name)}`, { method: "POST", headers: headers(), credentials: "omit" });
    say(answer.ok ? t("page-scene-starts", { name }) : (await refusalOf(answer)).message);
  };
  const item = (/** @type {{name: string, description: string}} */ { name, description }) =>
    el("li", {}, el("button", { type: "button", click: () => void start(name) }, t("page-start-scene", { name })), " ", el("span", { lang: "en" }, description));
  replaceChildren(byId("scene-list"), ...scenes.map(item));
}
