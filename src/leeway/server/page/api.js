// The server's public routes, and nothing else of it. Addresses are relative to the page.

import { recall } from "./store.js";

/** A refusal or failure, in the server's own words. */
export class ApiError extends Error {
  constructor(status, { message, code }) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headers() {
  const key = recall("key", "");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function ask(path, options = {}) {
  try {
    return await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message = "The server cannot be reached. It may have been stopped.";
    throw new ApiError(0, { message, code: "unreachable" });
  }
}

async function refusal(response) {
  try {
    return new ApiError(response.status, (await response.json()).error);
  } catch {
    const message = `The server answered with status ${response.status}.`;
    return new ApiError(response.status, { message, code: "http_error" });
  }
}

/** Return a route's JSON; /health also answers with 503, which `statuses` lets through. */
export async function getJson(path, statuses = [200]) {
  const response = await ask(path);
  if (!statuses.includes(response.status)) throw await refusal(response);
  return response.json();
}

export async function getText(path) {
  const response = await ask(path);
  if (!response.ok) throw await refusal(response);
  return response.text();
}

/** Yield the chunks of a streamed chat; aborting the signal cancels it on the server. */
export async function* streamChat(body, signal) {
  const response = await ask("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  let isWhole = false;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") {
      isWhole = true;
      continue;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(response.status, chunk.error);
    yield chunk;
  }
  if (!isWhole) {
    const message = "The connection was lost before the answer was complete.";
    throw new ApiError(0, { message, code: "unreachable" });
  }
}

/** Yield the data of server-sent events; comments are left out. */
async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  for (;;) {
    const { done, value } = await read(reader);
    if (done) return;
    waiting += decoder.decode(value, { stream: true });
    const frames = waiting.split("\n\n");
    waiting = frames.pop();
    for (const frame of frames) {
      if (frame.startsWith("data: ")) yield frame.slice("data: ".length);
    }
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message = "The connection was lost before the answer was complete.";
    throw new ApiError(0, { message, code: "unreachable" });
  }
}

/** Return the sum of each metric of a Prometheus page over all its labels. */
export function sumMetrics(page) {
  const sums = {};
  for (const line of page.split("\n")) {
    const found = /^(\w+)(?:\{.*\})? (\S+)/.exec(line);
    if (found) sums[found[1]] = (sums[found[1]] ?? 0) + Number(found[2]);
  }
  return sums;
}
