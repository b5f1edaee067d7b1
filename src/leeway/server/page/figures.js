// The answers' figures: what the receipts of this tab say, and what is seen while one runs.

import { bar, byId, el, lawLine, number, percent } from "./dom.js";
import { badgeOf, isExact, limitWords } from "./law.js";

const SOURCES = [
  ["accepted", "drafted, kept"],
  ["recovered", "recovered"],
  ["bonus", "bonus"],
  ["plain", "no draft"],
];
const NUM_COLUMNS = 48;
const DEMOTIONS = {
  self_check: " (the check at load found blocks of drafts wrong here)",
  drafter_failed: " (its drafter failed and was given up)",
};

/** Return tokens a second: those behind the first, over the time of their verify steps. */
export function tokensPerSecond(receipt) {
  const isMeasured = receipt.decode_s > 0 && receipt.output_tokens > 1;
  return isMeasured ? (receipt.output_tokens - 1) / receipt.decode_s : null;
}

/** Show a running answer by what has come: pieces, verify steps, seconds since the first. */
export function showRunning(pieces, numSteps, seconds) {
  byId("tokens-per-step").textContent = number(numSteps ? pieces.length / numSteps : null);
  byId("tokens-per-s").textContent = number(seconds > 0.2 ? (pieces.length - 1) / seconds : null, 1);
  byId("loss-mean").textContent = "…";
  byId("answer-law").textContent = "Running; its receipt comes with its end.";
  byId("answer-limits").textContent = "";
  showLegend(pieces);
}

/** Show the last answer and the row of all; without any, say so. */
export function showAnswers(turns) {
  const last = turns.findLast((turn) => turn.pieces.length > 0);
  const receipt = last?.receipt ?? null;
  showLegend(last?.pieces ?? []);
  byId("tokens-per-step").textContent = number(receipt?.tokens_per_verify_step);
  byId("tokens-per-s").textContent = number(receipt && tokensPerSecond(receipt), 1);
  byId("loss-mean").textContent = receipt ? number(receipt.loss.total_variation_mean ?? 0, 3) : "–";
  byId("answer-law").textContent = answerWords(last, receipt);
  const limits = receipt?.limits;
  byId("answer-limits").textContent = limits ? `Limits: ${limitWords(limits)}.` : "";
  showAcceptance(receipt);
  const receipts = turns.map((turn) => turn.receipt).filter(Boolean);
  showLoss(receipts);
  showSpeed(receipts);
}

function answerWords(turn, receipt) {
  if (!turn) return "Nothing has been asked yet.";
  if (!receipt) return "It was not finished, so it has no receipt.";
  const why = DEMOTIONS[receipt.demotion] ?? "";
  if (!receipt.drafted) return `Plain decoding: nothing was drafted${why}; seed ${receipt.seed}.`;
  const judged = `${lawLine(receipt.law, receipt.options)}, ${badgeOf(receipt.guarantee)}`;
  const asked = receipt.requested_law === receipt.law ? "" : ` (asked for ${receipt.requested_law})`;
  return `Judged by ${judged}${asked}; drafted by ${receipt.drafter}${why}; seed ${receipt.seed}.`;
}

function showLegend(pieces) {
  const counts = Object.fromEntries(SOURCES.map(([from]) => [from, 0]));
  for (const [, from] of pieces) counts[from] += 1;
  byId("legend").replaceChildren(...SOURCES.map(([from, words]) =>
    el("li", {}, el("span", { class: from }, words), el("span", { "data-count": from }, counts[from]))));
}

function showAcceptance(receipt) {
  const list = byId("acceptance");
  list.className = "bars counted";
  const drafted = receipt?.drafted_by_depth ?? [];
  list.replaceChildren(...drafted.map((count, depth) => {
    const accepted = receipt.accepted_by_depth[depth] ?? 0;
    const share = accepted / count;
    return bar(String(depth + 1), share, `${percent(share)} of ${count}`);
  }));
  if (!drafted.length) list.replaceChildren(el("li", { class: "faint none" }, "Nothing was drafted."));
}

function showLoss(receipts) {
  const shown = receipts.slice(-NUM_COLUMNS);
  const losses = shown.map((receipt) => receipt.loss.total_variation_mean ?? 0);
  const largest = Math.max(0, ...losses);
  byId("loss").replaceChildren(...shown.map((receipt, index) => {
    const exact = !receipt.drafted || isExact(receipt.guarantee, receipt.temperature);
    const title = `${lawLine(receipt.law, receipt.options)}: ${number(losses[index], 3)}`;
    const column = el("span", { "data-exact": exact, title });
    column.style.setProperty("--share", `${largest ? (100 * losses[index]) / largest : 0}%`);
    return column;
  }));
  const meaning = "Total variation between what was emitted and the model's own row, mean over the "
    + "positions judged; one column an answer.";
  const words = losses.length
    ? `Last ${number(losses.at(-1), 3)}; largest of ${losses.length}: ${number(largest, 3)}. `
    : "No answers yet. ";
  byId("loss-words").textContent = words + meaning;
  byId("loss").setAttribute("aria-label", `Loss of each answer. ${words}`);
}

function showSpeed(receipts) {
  const arms = new Map();
  for (const receipt of receipts.filter((one) => tokensPerSecond(one) !== null)) {
    const name = receipt.drafted ? lawLine(receipt.law, receipt.options) : "no drafts";
    const arm = arms.get(name) ?? { tokens: 0, seconds: 0, answers: 0 };
    arm.tokens += receipt.output_tokens - 1;
    arm.seconds += receipt.decode_s;
    arm.answers += 1;
    arms.set(name, arm);
  }
  const speeds = [...arms].map(([name, arm]) => [name, arm.tokens / arm.seconds, arm.answers]);
  const largest = Math.max(...speeds.map(([, speed]) => speed));
  byId("speed").replaceChildren(...speeds.map(([name, speed, count]) =>
    bar(`${name} × ${count}`, speed / largest, number(speed, 1))));
  byId("speed-words").textContent = speeds.length
    ? "Tokens a second over this tab's answers (× how many), each with its own text: an impression, "
      + "not a measurement. " + (arms.has("no drafts") ? "" : "Untick “Draft ahead” to see it without.")
    : "No answers yet.";
}
