// Answers on their way: each is kept here, through a reload too, until the broker has it.
import { useEffect, useState } from "/vendor/preact.js";
import { act } from "/lib/api.js";
import { tell } from "/lib/ui.js";

const KEY = "newsift.unsaved";
const SOONEST = 1000, LATEST = 15000; // milliseconds before what failed is tried again
const LOST = [0, 401, 502, 503]; // the desk or its broker is away, or wants the token: not refused
const hearers = new Set();
let items = restored();
let busy = false, trouble = "", pause = SOONEST, timer = 0;

function restored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? [];
  } catch {
    return [];
  }
}

function changed(item, answer, error) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(items));
  } catch {
    // a browser that keeps nothing still has them while the page is open
  }
  hearers.forEach((hear) => hear(item, answer, error));
}

async function send() {
  if (busy || !items.length) return;
  clearTimeout(timer);
  busy = true;
  const item = items[0];
  let answer, error;
  try {
    const done = await act(item.path, item.question);
    answer = done.answer;
    (done.told ?? []).forEach((line) => tell(line, true));
  } catch (refused) {
    error = refused;
  }
  busy = false;
  if (error && LOST.includes(error.status)) {
    trouble = error.message;
    timer = setTimeout(send, pause);
    pause = Math.min(2 * pause, LATEST);
    return changed();
  }
  const why = error?.message ?? answer?.missed;
  if (why && !hearers.size) tell(`Not saved: ${item.text ?? "that"}: ${why}`, true);
  items = items.slice(1);
  [trouble, pause] = ["", SOONEST];
  changed(item, answer, error);
  send();
}

// Keep something to do until it is done or refused: in order, one at a time; `text` tells of what.
export function put(path, question, text) {
  items = [...items, { path, question, text: text?.slice(0, 200) }];
  changed();
  send();
}

// What waits for the desk, why it does, and how it is tried at once; `hear` gets each outcome.
export function useUnsaved(hear) {
  const [, draw] = useState(0);
  useEffect(() => {
    const told = (item, answer, error) => {
      if (item) hear(item, answer, error);
      draw((n) => n + 1);
    };
    hearers.add(told);
    return () => hearers.delete(told);
  });
  return { items, trouble, again: send };
}

addEventListener("beforeunload", (event) => items.length && event.preventDefault());
send();
