// An outbox of actions that wait, in order, until the broker has them; it survives a reload.
import { useEffect, useRef, useState } from "/vendor/preact.js";
import { act, AWAY_STATUSES, useLatest } from "/lib/api.js";
import { notify } from "/lib/ui.js";

const STORAGE_KEY = "newsift.unsaved";
const MAX_TEXT_CHARS = 200;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 15000;
const RETRY_STATUSES = [...AWAY_STATUSES, 401]; // 401: the session has ended
const listeners = new Set();

// Requests in order, which survive a reload of the page; one is sent at a time.
const outbox = { items: loadItems(), problem: "", busy: false, retryMs: FIRST_RETRY_MS, timer: 0 };

function loadItems() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) ?? [];
  } catch {
    return [];
  }
}

function notifyListeners(item, answer, error) {
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(outbox.items));
  } catch {
    // Without storage they last while the page is open.
  }
  dispatchEvent(new Event("newsift-outbox"));
  listeners.forEach((each) => each(item, answer, error));
}

export async function sendNext() {
  if (outbox.busy || !outbox.items.length) return;
  clearTimeout(outbox.timer);
  outbox.busy = true;
  const item = outbox.items[0];
  let answer, error;
  try {
    const reply = await act(item.path, item.question);
    answer = reply.answer;
    reply.messages.forEach((line) => notify(line, true));
  } catch (refusal) {
    error = refusal;
  }
  outbox.busy = false;
  if (error && RETRY_STATUSES.includes(error.status)) {
    outbox.problem = error.message;
    outbox.timer = setTimeout(sendNext, outbox.retryMs);
    outbox.retryMs = Math.min(2 * outbox.retryMs, MAX_RETRY_MS);
    return notifyListeners();
  }
  const why = error?.message ?? answer?.problem;
  if (why && !listeners.size) notify(`Not saved: ${item.text ?? "that"}: ${why}`, true);
  if (!why && item.done) notify(item.done);
  Object.assign(outbox, { items: outbox.items.slice(1), problem: "", retryMs: FIRST_RETRY_MS });
  notifyListeners(item, answer, error);
  sendNext();
}

// `done` is the notice of its success.
export function enqueue(path, question, text, done) {
  outbox.items = [...outbox.items, { path, question, text: text?.slice(0, MAX_TEXT_CHARS), done }];
  notifyListeners();
  sendNext();
}

addEventListener("beforeunload", (event) => outbox.items.length && event.preventDefault());

// The number of items that cannot be sent, and the reason why.
export const useUnsent = () =>
  useLatest("newsift-outbox", () => (outbox.problem ? [outbox.items.length, outbox.problem] : [0]));

// The waiting items and the reason why they wait; `finished` is called with each item that does
// not wait any more, and its answer or error.
export function useOutbox(finished) {
  const [, redraw] = useState(0);
  const latest = useRef();
  latest.current = finished;
  useEffect(() => {
    const update = (item, answer, error) => {
      if (item) latest.current(item, answer, error);
      redraw((n) => n + 1);
    };
    listeners.add(update);
    return () => listeners.delete(update);
  }, []);
  return outbox;
}
