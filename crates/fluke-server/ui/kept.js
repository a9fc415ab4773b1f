// What this browser keeps for its person, if it is let: for ever, or for this tab.

export function kept(key, where = "localStorage") {
  try {
    return globalThis[where].getItem(key);
  } catch {
    return null;
  }
}

export function keep(key, value, where = "localStorage") {
  try {
    globalThis[where].setItem(key, value);
  } catch {
    // Then it is forgotten with the page.
  }
}
