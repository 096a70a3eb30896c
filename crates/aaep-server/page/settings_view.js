// The settings of the user.

import { byId, choice, el, labelled } from "./dom.js";
import { t } from "./phrases.js";
import { clamp, isTag } from "./settings.js";

/** @typedef {import("./settings.js").Settings} Settings */

/** @param {Settings} settings @param {(change: Partial<Settings>) => void} change Called with what the user changed. */
export function showSettings(settings, change) {
  /** @param {HTMLSelectElement} select @param {(value: any) => Partial<Settings>} read @returns {HTMLSelectElement} */
  const onChange = (select, read) => {
    select.addEventListener("change", () => change(read(select.value)));
    return select;
  };
  const verbosity = choice([["terse", t("page-terse")], ["normal", t("page-normal")], ["detailed", t("page-detailed")]], settings.verbosity);
  const load = choice([["low", t("page-low")], ["medium", t("page-medium")], ["high", t("page-high")]], settings.load);
  const times = [1, 3, 10].map((factor) => /** @type {[string, string]} */ ([String(factor), t("page-time-factor", { factor })]));
  const announcing = choice([["automatic", t("page-automatic")], ["live_region", t("page-live-region")], ["off", t("page-off")]], settings.announcing);
  const pace = el("input", { type: "number", min: 60, max: 600, step: 10, value: settings.pace });
  pace.addEventListener("change", () => change({ pace: clamp(pace.value, 60, 600, settings.pace) }));
  const languages = el("input", { type: "text", autocomplete: "off", value: settings.languages.join(", ") });
  languages.addEventListener("change", () => {
    const tags = languages.value.split(/[\s,]+/).filter(isTag);
    if (tags.length > 0) change({ languages: tags.slice(0, 8) });
  });
  byId("settings-form").append(
    labelled(t("page-verbosity"), onChange(verbosity, (value) => ({ verbosity: value }))),
    labelled(t("page-load"), onChange(load, (value) => ({ load: value })), t("page-load-hint")),
    labelled(t("page-pace"), pace),
    labelled(t("page-languages"), languages, t("page-languages-hint")),
    labelled(t("page-time-to-answer"), onChange(choice(times, String(settings.timeFactor)), (value) => ({ timeFactor: Number(value) })), t("page-time-hint")),
    labelled(t("page-announcing"), onChange(announcing, (value) => ({ announcing: value })), t("page-announcing-hint")),
    kinds(settings, change),
    checkbox(t("page-voice"), settings.voice, (voice) => change({ voice })),
    checkbox(t("page-sounds"), settings.sounds, (sounds) => change({ sounds })),
  );
}

/** @param {Settings} settings @param {(change: Partial<Settings>) => void} change @returns {HTMLElement} */
function kinds(settings, change) {
  const announced = { ...settings.announced };
  const boxes = /** @type {const} */ (["text", "tools", "states"]).map((kind) =>
    checkbox(t(`page-kind-${kind}`), announced[kind], (isOn) => {
      announced[kind] = isOn;
      change({ announced: { ...announced } });
    }));
  return el("fieldset", {}, el("legend", {}, t("page-announced")), ...boxes);
}

/** @param {string} text @param {boolean} isOn @param {(isOn: boolean) => void} change @returns {HTMLElement} */
function checkbox(text, isOn, change) {
  const input = el("input", { type: "checkbox" });
  input.checked = isOn;
  input.addEventListener("change", () => change(input.checked));
  return el("div", { class: "option" }, el("label", {}, input, ` ${text}`));
}
