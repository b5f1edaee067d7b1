// The server's state: asked of /health and /metrics every two seconds while the page is seen.

import { getJson, getText, sumMetrics } from "./api.js";
import { byId, el, number, percent } from "./dom.js";
import { badgeOf, limitWords } from "./law.js";

const PERIOD_MS = 2000;
const STATES = {
  loading: "Loading the model",
  ready: "Ready",
  draining: "Stopping",
  failed: "Failed",
  unreachable: "Not reachable",
};

/** Watch the server; `onReady` is called with /health whenever it becomes ready. */
export function watchServer(onReady) {
  let state = null;
  async function look() {
    let health;
    try {
      health = await ask();
      const isNew = health.status === "ready" && state !== "ready";
      state = health.status;
      if (isNew) await onReady(health);
    } catch (error) {
      state = "unreachable";
      health = { status: state, error: error.message };
    }
    show(health);
  }
  async function loop() {
    if (!document.hidden) await look();
    setTimeout(loop, PERIOD_MS);
  }
  loop();
  document.addEventListener("visibilitychange", () => document.hidden || look());
  return look;
}

async function ask() {
  const health = await getJson("health", [200, 503]);
  if (health.load) health.sums = sumMetrics(await getText("metrics"));
  return health;
}

function show(health) {
  const connection = byId("connection");
  if (connection.dataset.state !== health.status || connection.textContent === "Connecting") {
    connection.textContent = STATES[health.status] ?? health.status;
    connection.dataset.state = health.status;
  }
  const trouble = byId("trouble");
  const hasError = ["failed", "unreachable"].includes(health.status);
  trouble.hidden = !hasError;
  if (hasError && trouble.textContent !== health.error) trouble.textContent = health.error;
  byId("send").disabled = health.status !== "ready";
  if (health.model) byId("model").textContent = health.model;
  if (health.load) {
    showFacts(health);
    showTotals(health.acceptance.engaged);
  }
}

function showFacts({ load, sums, drafter, backend, version, acceptance }) {
  const prompt = sums.leeway_prompt_tokens_total ?? 0;
  const cached = sums.leeway_prompt_tokens_cached_total ?? 0;
  const facts = {
    Answering: load.num_requests_running,
    Waiting: load.num_requests_waiting,
    "KV cache": `${percent(load.kv_cache_usage)} taken`,
    "Prompts from cache": `${cached} of ${prompt} tokens`,
    Generated: `${sums.leeway_generation_tokens_total ?? 0} tokens`,
    Drafter: drafter.engaged === "none" ? "none" : `${drafter.engaged}, up to ${drafter.num_speculative_tokens}`,
    "Limits of an answer": limitWords(acceptance.limits) || "none",
    Backend: backend.backend ?? "–",
    Version: version,
  };
  byId("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, String(value))]));
}

function showTotals(engaged) {
  if (!engaged.length) {
    byId("totals").replaceChildren(el("p", { class: "faint" }, "None yet."));
    return;
  }
  const heads = ["law · drafter", "a step", "kept", "loss"];
  const rows = engaged.map((one) => [
    `${one.law} · ${one.drafter}`,
    number(one.tokens_per_verify_step),
    one.draft_acceptance_rate === null ? "–" : percent(one.draft_acceptance_rate),
    number(one.loss.total_variation_mean ?? 0, 3),
  ].map((value) => el("td", {}, value)));
  rows.forEach((cells, index) => { cells[0].title = badgeOf(engaged[index].guarantee); });
  byId("totals").replaceChildren(el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells)))));
}
