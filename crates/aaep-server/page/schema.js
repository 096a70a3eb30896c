// Checks a value against a JSON Schema, as far as the schemas of the protocol need it.

/** @typedef {Record<string, any> | boolean} Schema */

/** The most findings about one value. */
const MAX_FINDINGS = 10;

/** @type {Promise<Record<string, Schema>> | undefined} */
let loading;

/** @returns {Promise<Record<string, Schema>>} The schemas of events, by type. */
export function loadSchemas() {
  loading ??= fetch("/page/schemas.json").then((response) => (response.ok ? response.json() : {})).catch(() => ({}));
  return loading;
}

/**
 * Returns what is wrong with an event, in the order of its fields.
 * @param {Record<string, Schema>} schemas @param {any} event @returns {string[]}
 */
export function findingsOf(schemas, event) {
  const schema = schemas[event.type];
  if (schema === undefined) return [];
  /** @type {string[]} */
  const findings = [];
  check(schema, event, "", findings);
  return findings.slice(0, MAX_FINDINGS);
}

/** @param {Schema} schema @param {any} value @returns {boolean} */
function fits(schema, value) {
  /** @type {string[]} */
  const findings = [];
  check(schema, value, "", findings);
  return findings.length === 0;
}

/** @param {Schema} schema @param {any} value @param {string} path @param {string[]} findings */
function check(schema, value, path, findings) {
  if (schema === true || findings.length >= MAX_FINDINGS) return;
  const report = (/** @type {string} */ text) => void findings.push(`${path || "/"}: ${text}`);
  if (schema === false) return report("is not allowed");
  const type = schema["type"];
  if (type !== undefined && ![type].flat().some((one) => isOfType(value, one))) return report(`is not ${[type].flat().join(" or ")}`);
  if ("const" in schema && !isSame(value, schema["const"])) report(`is not ${JSON.stringify(schema["const"])}`);
  if (schema["enum"] && !schema["enum"].some((/** @type {any} */ one) => isSame(value, one))) report(`is not one of ${schema["enum"].join(", ")}`);
  if (typeof value === "string") checkText(schema, value, report);
  if (typeof value === "number") checkNumber(schema, value, report);
  if (Array.isArray(value)) checkArray(schema, value, path, findings, report);
  else if (isObject(value)) checkObject(schema, value, path, findings, report);
  for (const part of schema["allOf"] ?? []) check(part, value, path, findings);
  if (schema["anyOf"] && !schema["anyOf"].some((/** @type {Schema} */ part) => fits(part, value))) report("has none of the allowed forms");
  if (schema["not"] !== undefined && fits(schema["not"], value)) report("has a form that is not allowed");
}

/** @param {any} value @returns {boolean} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {any} value @param {string} type @returns {boolean} */
function isOfType(value, type) {
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  return typeof value === type;
}

/** @param {any} a @param {any} b @returns {boolean} */
function isSame(a, b) {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** @param {Record<string, any>} schema @param {string} value @param {(text: string) => void} report */
function checkText(schema, value, report) {
  const length = [...value].length;
  if (length < (schema["minLength"] ?? 0)) report("is too short");
  if (length > (schema["maxLength"] ?? Infinity)) report("is too long");
  if (schema["pattern"] !== undefined && !new RegExp(schema["pattern"], "u").test(value)) report(`does not match ${schema["pattern"]}`);
}

/** @param {Record<string, any>} schema @param {number} value @param {(text: string) => void} report */
function checkNumber(schema, value, report) {
  if (value < (schema["minimum"] ?? -Infinity) || value <= (schema["exclusiveMinimum"] ?? -Infinity)) report("is too small");
  if (value > (schema["maximum"] ?? Infinity) || value >= (schema["exclusiveMaximum"] ?? Infinity)) report("is too large");
}

/**
 * @param {Record<string, any>} schema @param {any[]} value @param {string} path @param {string[]} findings
 * @param {(text: string) => void} report
 */
function checkArray(schema, value, path, findings, report) {
  if (value.length < (schema["minItems"] ?? 0)) report("has too few items");
  if (value.length > (schema["maxItems"] ?? Infinity)) report("has too many items");
  if (schema["uniqueItems"] && new Set(value.map((one) => JSON.stringify(one))).size < value.length) report("has an item twice");
  const first = schema["prefixItems"] ?? [];
  for (const [i, item] of value.entries()) check(first[i] ?? schema["items"] ?? true, item, `${path}/${i}`, findings);
}

/**
 * @param {Record<string, any>} schema @param {Record<string, any>} value @param {string} path @param {string[]} findings
 * @param {(text: string) => void} report
 */
function checkObject(schema, value, path, findings, report) {
  for (const name of schema["required"] ?? []) if (!(name in value)) report(`${name} is missing`);
  for (const [name, item] of Object.entries(value)) {
    const place = `${path}/${name}`;
    const named = Object.hasOwn(schema["properties"] ?? {}, name) ? [schema["properties"][name]] : [];
    const patterns = Object.entries(schema["patternProperties"] ?? {}).filter(([pattern]) => new RegExp(pattern, "u").test(name));
    const matching = [...named, ...patterns.map(([, one]) => one)];
    for (const one of matching) check(one, item, place, findings);
    if (matching.length === 0 && schema["additionalProperties"] !== undefined) check(schema["additionalProperties"], item, place, findings);
    if (schema["propertyNames"] !== undefined) check(schema["propertyNames"], name, place, findings);
  }
}
