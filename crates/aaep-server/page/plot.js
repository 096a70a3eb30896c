// A line plot as SVG. The numbers are in a table beside it, so the plot itself says only what it shows.

const SPACE = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children @returns {SVGElement} */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * @param {string} title @param {number[]} values The newest last. @param {number} count How many there can be.
 * @returns {SVGElement}
 */
export function linePlot(title, values, count) {
  const [width, height, margin] = [480, 120, 4];
  const most = Math.max(1, ...values);
  const x = (/** @type {number} */ i) => margin + ((width - 2 * margin) * (i + count - values.length)) / Math.max(1, count - 1);
  const y = (/** @type {number} */ value) => height - margin - ((height - 2 * margin) * value) / most;
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, class: "plot" },
    svg("line", { x1: margin, y1: height - margin, x2: width - margin, y2: height - margin, class: "axis" }),
    svg("polyline", { points, class: "line", fill: "none" }));
}
