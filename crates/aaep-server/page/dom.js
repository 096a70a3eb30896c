// Makes elements. Text is always a text node: nothing that an agent sends is ever parsed as HTML.

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | undefined | ((event: any) => void)>} [properties] Attributes; a function
 *   is a listener of the event with that name.
 * @param {...(Node | string | undefined)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  for (const child of children) if (child !== undefined) element.append(child);
  return element;
}

/**
 * @param {Element} element
 * @param {Record<string, string | number | boolean | undefined | ((event: any) => void)>} properties
 */
export function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value === false || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, String(value));
  }
}

/**
 * Returns the element with this id, which is in index.html.
 * @param {string} id @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`There is no element ${id}.`);
  return element;
}

/** @param {Element} element @param {...(Node | string | undefined)} children */
export function replaceChildren(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== undefined));
}

let lastId = 0;

/** @param {string} prefix @returns {string} An id that no element has. */
export function newId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

/**
 * A field with its visible label.
 * @param {string} text @param {HTMLElement} field @param {string} [hint] @returns {HTMLElement}
 */
export function labelled(text, field, hint) {
  field.id ||= newId("field");
  const described = hint === undefined ? undefined : el("p", { id: `${field.id}-hint`, class: "hint" }, hint);
  if (described) field.setAttribute("aria-describedby", described.id);
  return el("div", { class: "field" }, el("label", { for: field.id }, text), field, described);
}

/**
 * A list of options.
 * @param {[string, string][]} options Values with their texts. @param {string} chosen @returns {HTMLSelectElement}
 */
export function choice(options, chosen) {
  const select = el("select");
  for (const [value, text] of options) {
    const option = el("option", { value }, text);
    option.selected = value === chosen;
    select.append(option);
  }
  return select;
}

/** Offers a text as a file. @param {string} name @param {string} type @param {string} text */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @returns {boolean} Whether the browser is made from Chromium. Some of what it tells screen readers differs from others. */
export function isChromium() {
  return navigator.userAgentData?.brands.some(({ brand }) => brand === "Chromium") ?? false;
}
