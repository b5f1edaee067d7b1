// The page: puts the parts together and takes what the user does.

import { getJson, streamChat } from "./api.js";
import { drawTurn, isUnanswered, messagesOf, newTurn } from "./chat.js";
import { byId } from "./dom.js";
import { showAnswers, showRunning } from "./figures.js";
import { fillLaws, speculative } from "./law.js";
import { watchServer } from "./server.js";
import { recall, remember } from "./store.js";

const SETTINGS = ["temperature", "max-tokens", "drafts", "marks"];
const ENDINGS = { stop: "finished", length: "cut at the limit" };

let turns = recall("turns", []);
let running = null;

const look = watchServer(async (health) => {
  fillLaws(await getJson("laws"), health, keepSettings);
  await checkKey();
});

/** Ask for the key where the server refuses to go on without one. */
async function checkKey() {
  try {
    await getJson("v1/models");
    byId("key-form").hidden = true;
  } catch (error) {
    if (error.status === 401) askForKey(error);
  }
}

function askForKey(error) {
  byId("key-form").hidden = false;
  byId("key-error").textContent = recall("key", "") ? error.message : "";
  byId("key").focus();
}

/** Return a field's number; an empty one leaves it to the server. */
function numberIn(id) {
  const { value } = byId(id);
  return value === "" ? undefined : Number(value);
}

async function send() {
  const asked = byId("prompt").value.trim();
  if (!asked || running || byId("send").disabled) return;
  const body = {
    messages: messagesOf(turns, asked),
    temperature: numberIn("temperature"),
    max_tokens: numberIn("max-tokens"),
    speculative: speculative(),
  };
  for (const refused of document.querySelectorAll(".unanswered")) refused.remove();
  const turn = newTurn(asked);
  turns = [...turns.filter((one) => !isUnanswered(one)), turn];
  byId("prompt").value = "";
  running = new AbortController();
  const view = drawTurn(turn);
  setBusy(true);
  try {
    await receive(turn, view, streamChat(body, running.signal));
  } catch (error) {
    fail(turn, error);
  }
  running = null;
  view.finish();
  setBusy(false);
  if (turns.includes(turn)) {
    remember("turns", turns);
    showAnswers(turns);
    say(turn);
  }
  look();
}

/** Take an answer's chunks as they come. */
async function receive(turn, view, chunks) {
  let numSteps = 0;
  let begun = null;
  for await (const chunk of chunks) {
    const choice = chunk.choices[0];
    if (choice?.provenance) {
      begun ??= performance.now();
      numSteps += 1;
      view.add(choice.provenance.map((piece) => [piece.text, piece.from]));
      showRunning(turn.pieces, numSteps, (performance.now() - begun) / 1000);
    }
    if (choice?.finish_reason) turn.ending = choice.finish_reason;
    if (chunk.metrics) turn.receipt = chunk.metrics.speculative_decoding;
  }
}

/** Note why an answer ended early; a question that got none goes back into the field. */
function fail(turn, error) {
  if (error.name === "AbortError") {
    turn.ending = "stopped";
    return;
  }
  turn.ending = "lost";
  turn.failure = error.message;
  if (error.status === 401) askForKey(error);
  if (!turn.pieces.length && !byId("prompt").value) byId("prompt").value = turn.asked;
}

function say(turn) {
  const words = turn.failure ?? `Answer ${ENDINGS[turn.ending] ?? turn.ending}, ${turn.pieces.length} tokens.`;
  byId("announce").textContent = words;
}

function setBusy(isBusy) {
  byId("stop").hidden = !isBusy;
  byId("send").hidden = isBusy;
  byId("log").setAttribute("aria-busy", isBusy);
  if (isBusy) byId("announce").textContent = "Answering.";
  if (byId("key-form").hidden) byId("prompt").focus();
}

const stop = () => running?.abort();

function newChat() {
  stop();
  turns = [];
  remember("turns", turns);
  byId("log").replaceChildren();
  byId("empty").hidden = false;
  byId("announce").textContent = "New chat.";
  showAnswers(turns);
  setView("chat");
  byId("prompt").focus();
}

function setView(name) {
  document.body.dataset.view = name;
  for (const view of ["chat", "engine"]) {
    byId(`view-${view}`).setAttribute("aria-pressed", view === name);
  }
}

function keepSettings() {
  const fields = SETTINGS.map(byId);
  const read = (field) => (field.type === "checkbox" ? field.checked : field.value);
  remember("settings", Object.fromEntries(fields.map((field) => [field.id, read(field)])));
  document.body.classList.toggle("marks", byId("marks").checked);
}

function restore() {
  for (const [id, value] of Object.entries(recall("settings", {}))) {
    if (typeof value === "boolean") byId(id).checked = value;
    else byId(id).value = value;
  }
  keepSettings();
  for (const turn of turns) drawTurn(turn);
  showAnswers(turns);
}

function listen() {
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("prompt").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && stop());
  byId("stop").addEventListener("click", stop);
  byId("new-chat").addEventListener("click", newChat);
  byId("view-chat").addEventListener("click", () => setView("chat"));
  byId("view-engine").addEventListener("click", () => setView("engine"));
  byId("law-chip").addEventListener("click", () => {
    setView("engine");
    byId("law").focus();
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    remember("key", byId("key").value);
    byId("key").value = "";
    checkKey();
  });
  for (const id of SETTINGS) byId(id).addEventListener("change", keepSettings);
}

listen();
restore();
