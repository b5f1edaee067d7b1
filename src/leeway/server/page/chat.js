// The conversation: turns as they are asked and answered. Answers are text, marked token by token.

import { byId, el, lawLine, number } from "./dom.js";
import { badgeOf } from "./law.js";

const ENDINGS = { length: "cut at the limit", stopped: "stopped" };

/**
 * One question and its answer.
 *
 * `pieces` are [text, from]; `ending` is null while it runs, then stop, length, stopped or lost;
 * `failure` the server's words where it refused or failed.
 */
export const newTurn = (asked) => ({ asked, pieces: [], ending: null, failure: null, receipt: null });

/** Return whether a question was refused before anything was said; it is not asked again. */
export const isUnanswered = (turn) => turn.failure !== null && turn.pieces.length === 0;

export const textOf = (turn) => turn.pieces.map(([text]) => text).join("");

/** Return the messages of a request: every turn that has an answer, then the new question. */
export function messagesOf(turns, asked) {
  const answered = turns.filter((turn) => turn.ending !== null && turn.pieces.length > 0);
  const past = answered.flatMap((turn) => [
    { role: "user", content: turn.asked },
    { role: "assistant", content: textOf(turn) },
  ]);
  return [...past, { role: "user", content: asked }];
}

/** Draw a turn behind the others and return what changes it. */
export function drawTurn(turn) {
  const answer = el("div", { class: "answer" });
  const article = el("article", { class: "turn" },
    el("div", { class: "asked" }, el("span", { class: "unseen" }, "You: "), turn.asked),
    el("span", { class: "unseen" }, "Answer: "), answer);
  byId("log").append(article);
  byId("empty").hidden = true;
  answer.append(...turn.pieces.map(token));
  if (turn.ending !== null) finish();
  else answer.setAttribute("aria-busy", "true");
  follow(true);

  function add(pieces) {
    const isAtEnd = isNearEnd();
    turn.pieces.push(...pieces);
    answer.append(...pieces.map(token));
    follow(isAtEnd);
  }

  function finish() {
    const isAtEnd = isNearEnd();
    answer.removeAttribute("aria-busy");
    const note = noteOf(turn);
    if (note) article.append(el("p", { class: "turn-note" }, note));
    if (turn.failure) {
      article.classList.toggle("unanswered", isUnanswered(turn));
      const what = turn.pieces.length ? "The answer broke off. " : "Not answered. ";
      article.append(el("p", { class: "turn-error" }, el("b", {}, what), turn.failure));
    }
    follow(isAtEnd);
  }

  return { add, finish };
}

function token([text, from]) {
  return el("span", { class: from, title: from }, text);
}

/** Return the line under an answer: what judged it and how it ended. */
function noteOf({ receipt, ending, failure }) {
  const parts = [];
  if (receipt) {
    const law = receipt.drafted ? lawLine(receipt.law, receipt.options) : "no drafts";
    parts.push(`${law}, ${badgeOf(receipt.drafted ? receipt.guarantee : "exact_distribution")}`);
    parts.push(`${receipt.output_tokens} tokens`);
    if (receipt.drafted) parts.push(`${number(receipt.tokens_per_verify_step)} a step`);
  }
  if (ENDINGS[ending] && !failure) parts.push(ENDINGS[ending]);
  return parts.join(" · ");
}

function isNearEnd() {
  const { scrollHeight, scrollTop, clientHeight } = byId("scroll");
  return scrollHeight - scrollTop - clientHeight < 80;
}

function follow(isWanted) {
  if (isWanted) byId("scroll").scrollTop = byId("scroll").scrollHeight;
}
