// Elements and numbers. Whatever comes from outside enters the page as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** Return a new element; children are elements or text. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Return a number for people; a dash where there is none. */
export function number(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits) return value.toExponential(1);
  return value === 0 ? "0" : value.toFixed(digits);
}

export const percent = (share) => `${Math.round(100 * share)} %`;

/** Return a row of bars' list: a name, a bar of `share` (0 to 1), a value in words. */
export function bar(name, share, value) {
  const fill = el("span", { class: "fill" });
  fill.style.setProperty("--share", `${100 * share}%`);
  return el("li", {},
    el("span", { class: "name", title: name }, name),
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "value" }, value));
}

/** Return a law with its numbers in one line. */
export function lawLine(law, options = {}) {
  const numbers = Object.entries(options).filter(([, value]) => typeof value === "number");
  const words = numbers.map(([name, value]) => `${name} ${value}`);
  return words.length ? `${law} (${words.join(", ")})` : law;
}
