// The law picker: which acceptance law judges the next answer, with its guarantee in words.

import { byId, el, lawLine, number } from "./dom.js";
import { recall, remember } from "./store.js";

const WORDS = {
  exact_distribution: ["exact", "Exact: answers have the model's own distribution, whatever was drafted."],
  exact_greedy: ["exact if greedy", "Exact at temperature 0: the tokens are those of plain greedy decoding."],
  none: ["approximate", "Approximate: answers may differ from the model's own; the meter says by how much."],
};

export const badgeOf = (guarantee) => WORDS[guarantee]?.[0] ?? guarantee;

/** Return whether a guarantee holds at this temperature. */
export function isExact(guarantee, temperature) {
  return guarantee === "exact_distribution" || (guarantee === "exact_greedy" && temperature === 0);
}

/** Return limits on a lossy law in words, with what an answer spent where it is known. */
export function limitWords(limits) {
  const { tv_budget: budget, tv_spent: spent = null, exact_prefix: prefix } = limits;
  const words = [];
  if (budget !== null) {
    const before = spent === null ? "up to " : `${number(spent, 3)} of `;
    words.push(`total variation ${before}${number(budget, 3)}`);
  } else if (spent !== null) {
    words.push(`total variation ${number(spent, 3)}`);
  }
  if (prefix > 0) words.push(`first ${prefix} tokens exact`);
  if (limits.hard_support) words.push("inside the model's support");
  if (limits.phase !== "all") words.push(`in ${limits.phase} only`);
  return words.join(", ");
}

let laws = new Map();
let installed = null;
let allowed = [];
let onChange = () => {};

/** Fill the picker from GET /laws and GET /health; tell `listener` of every change. */
export function fillLaws(listing, health, listener) {
  laws = new Map(listing.laws.map((law) => [law.name, { ...law, law: law.name, start: {} }]));
  for (const preset of listing.presets) laws.set(preset.name, fromPreset(preset));
  ({ installed, allowed_per_request: allowed } = health.acceptance);
  onChange = listener;
  const select = byId("law");
  const all = [...laws.values()];
  select.replaceChildren(
    group("Laws", all.filter((one) => isAllowed(one) && one.law === one.name)),
    group("Settings of other systems", all.filter((one) => isAllowed(one) && one.law !== one.name)),
    group("Not allowed by this server", all.filter((one) => !isAllowed(one))),
  );
  const kept = recall("law", null);
  select.value = kept && laws.has(kept.name) ? kept.name : installed.law;
  select.onchange = () => choose(baseOf(select.value));
  const hasDrafts = health.drafter.engaged !== "none";
  byId("drafts").disabled = !hasDrafts;
  if (!hasDrafts) byId("drafts").checked = false;
  for (const id of ["drafts", "temperature"]) byId(id).onchange = () => choose(values());
  choose({ ...baseOf(select.value), ...(kept?.name === select.value ? kept.values : {}) });
}

/** Return the request's `speculative` object: only what differs from the server's own. */
export function speculative() {
  const fields = { metrics: "detailed" };
  if (byId("drafts").disabled) return fields;
  if (!byId("drafts").checked) return { ...fields, num_speculative_tokens: 0 };
  const name = byId("law").value;
  const base = baseOf(name);
  const changed = Object.entries(values()).filter(([knob, value]) => value !== base[knob]);
  if (name !== installed.law || changed.length) {
    fields.law = name;
    fields.options = Object.fromEntries(changed);
  }
  return fields;
}

const isAllowed = (one) => allowed.includes(one.law);

function fromPreset({ name, law, options, source }) {
  return { ...laws.get(law), name, start: options, summary: `${law}, set as in ${source}` };
}

function group(label, choices) {
  const options = choices.map((one) =>
    el("option", { value: one.name }, `${one.name} · ${badgeOf(one.guarantee)}`));
  return options.length ? el("optgroup", { label }, ...options) : "";
}

/** Return the values a law starts from: the server's own for its law, else a preset's, defaults. */
function baseOf(name) {
  const { options: knobs, start } = laws.get(name);
  const own = name === installed.law ? installed.options : start;
  return Object.fromEntries(knobs.map((knob) => [knob.name, own[knob.name] ?? knob.default]));
}

/** Return what the fields hold; an empty one counts as not given. */
function values() {
  const fields = [...byId("knobs").querySelectorAll("[data-knob]")];
  const given = fields.filter((field) => field.value !== "");
  return Object.fromEntries(given.map((field) =>
    [field.dataset.knob, field.type === "number" ? Number(field.value) : field.value]));
}

function choose(start) {
  const law = laws.get(byId("law").value);
  byId("knobs").replaceChildren(...law.options.flatMap((knob) => knobField(knob, start[knob.name])));
  show(law);
}

function show(law) {
  remember("law", { name: law.name, values: values() });
  const isPlain = !byId("drafts").checked;
  const guarantee = isPlain ? "exact_distribution" : law.guarantee;
  const words = byId("guarantee");
  words.textContent = isPlain
    ? "Exact: plain decoding, one token a step; nothing is drafted and no law judges."
    : WORDS[guarantee][1];
  const exact = isExact(guarantee, Number(byId("temperature").value));
  words.dataset.exact = exact;
  byId("law-summary").textContent = summaryOf(law);
  const badge = el("span", { class: "badge", "data-exact": exact }, badgeOf(guarantee));
  const name = isPlain ? "no drafts" : law.name;
  byId("law-chip").replaceChildren(el("span", {}, name), badge);
  byId("law-chip").setAttribute("aria-label", `Acceptance law: ${name}, ${badgeOf(guarantee)}`);
  byId("law-chip").title = isPlain ? name : lawLine(law.name, values());
  onChange();
}

function summaryOf(law) {
  const given = values();
  const missing = law.options.filter((knob) => knob.is_required && !(knob.name in given));
  const sentences = [law.summary[0].toUpperCase() + law.summary.slice(1)];
  if (missing.length) sentences.push(`Needs ${missing.map((knob) => knob.name).join(" and ")}`);
  if (!isAllowed(law)) sentences.push("This server does not let a request choose it (--allow-laws)");
  return `${sentences.join(". ")}.`;
}

function knobField(knob, value) {
  const id = `knob-${knob.name}`;
  const label = el("label", { for: id }, knob.name, el("small", {}, knob.meaning));
  const field = knob.choices.length ? wordField(id, knob) : numberField(id, knob);
  field.dataset.knob = knob.name;
  field.value = value ?? "";
  field.onchange = () => {
    const name = byId("law").value;
    if (field.value === "") field.value = baseOf(name)[knob.name] ?? "";
    show(laws.get(name));
  };
  return [label, field];
}

function wordField(id, knob) {
  return el("select", { id }, ...knob.choices.map((one) => el("option", {}, one)));
}

function numberField(id, knob) {
  const step = knob.is_integer ? "1" : "any";
  const placeholder = knob.is_required ? "needed" : "off";
  return el("input", { id, type: "number", min: knob.low, max: knob.high, step, placeholder });
}
