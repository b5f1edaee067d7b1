// What this tab remembers across a reload: the key, the settings, the conversation. Nothing is
// kept when the tab is closed, and the page works where storing is forbidden.

const PREFIX = "leeway.";

export function recall(name, fallback) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function remember(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full or forbidden: the page goes on without.
  }
}
