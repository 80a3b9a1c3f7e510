// A judge's queue, and an outbox of answers that wait until the broker has them.
import { useEffect, useRef, useState } from "/vendor/preact.js";
import { act, useAnswer } from "/lib/api.js";
import { notify } from "/lib/ui.js";

const STORAGE_KEY = "newsift.unsaved";
const MAX_TEXT_CHARS = 200;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 15000;
const RETRY_STATUSES = [0, 401, 502, 503]; // desk or broker does not answer, session ended
const DRAWING_POLL_MS = 700; // while a queue is drawn
const EMPTY_POLL_MS = 6000; // while a queue has no question
const MAX_MISSED = 20;
const PARTS = ["labels", "events", "seeds"];
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
  listeners.forEach((each) => each(item, answer, error));
}

async function sendNext() {
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
  Object.assign(outbox, { items: outbox.items.slice(1), problem: "", retryMs: FIRST_RETRY_MS });
  notifyListeners(item, answer, error);
  sendNext();
}

function enqueue(path, question, text) {
  outbox.items = [...outbox.items, { path, question, text: text?.slice(0, MAX_TEXT_CHARS) }];
  notifyListeners();
  sendNext();
}

addEventListener("beforeunload", (event) => outbox.items.length && event.preventDefault());
sendNext();

// `finished` is called with each item, and its answer or error.
function useOutbox(finished) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const update = (item, answer, error) => {
      if (item) finished(item, answer, error);
      redraw((n) => n + 1);
    };
    listeners.add(update);
    return () => listeners.delete(update);
  });
}

const isSame = (one, other) => other && one.platform === other.platform && one.id === other.id;

// While one answer is on its way, the question that follows it is shown.
function nextQuestion(state, waiting) {
  if (!waiting.length) return state.question;
  const [{ path, question }] = waiting;
  const isCurrent = path.endsWith("/answer") && isSame(question, state.question);
  if (waiting.length > 1 || !isCurrent) return undefined;
  return state.following?.[question.verdict === "on" ? "on" : "off"] || undefined;
}

export function useQueue(event, kind, by) {
  const key = { event, by, kind };
  const [latest, error, refresh] = useAnswer("/api/judge/question", key, PARTS);
  const [state, setState] = useState(null);
  const [missed, setMissed] = useState([]);
  const [undos, setUndos] = useState(0); // Undos that wait for the answers before them.
  const isWaiting = useRef(false);
  const mergeState = (next) =>
    setState((old) =>
      old?.queue === next.queue && next.change < old.change ? old : { ...old, ...next },
    );
  useOutbox((item, answer, failure) => {
    const why = failure?.message ?? answer?.problem;
    const entry = { ...item.question, text: item.text, why, other: answer?.other };
    if (why) setMissed((all) => [...all.slice(1 - MAX_MISSED), entry]);
    const isOwn = item.question.queue === state?.queue;
    if (isOwn && !failure && item.path.endsWith("/redraw")) setState(null); // It has ended.
    if (failure || !answer.queue) refresh();
    else if (answer.queue === state?.queue) mergeState(answer);
  });
  const waiting = outbox.items.filter((item) => item.question.queue === state?.queue);
  isWaiting.current = waiting.length > 0;
  const send = (name, more, text) =>
    enqueue(`/api/judge/${name}`, { ...key, queue: state.queue, ...more }, text);
  const judge = (name, { platform, id, text }, verdict) =>
    send(name, { platform, id, verdict }, text);
  useEffect(() => {
    const isOld = isWaiting.current && latest?.queue === state?.queue;
    if (latest && !latest.drawing && !isOld) mergeState(latest);
  }, [latest]);
  useEffect(() => {
    const wait = latest?.drawing ? DRAWING_POLL_MS : latest?.empty ? EMPTY_POLL_MS : 0;
    const timer = wait && setTimeout(refresh, wait);
    return () => clearTimeout(timer);
  }, [latest, error]);
  useEffect(() => {
    if (!undos || waiting.length || !state) return;
    setUndos(undos - 1);
    if (state.undo) send("undo", { step: state.undo.step });
  }, [undos, waiting.length, state]);
  const question = state && nextQuestion(state, waiting);
  return {
    state,
    question,
    error,
    missed,
    refresh,
    waiting: waiting.length,
    problem: outbox.problem,
    unsaved: outbox.items.length,
    retry: sendNext,
    answer: (verdict) => question && judge("answer", question, verdict),
    correct: (post, verdict) => state && judge("correct", post, verdict),
    undo: () => setUndos((n) => n + 1),
    redraw: () => send("redraw", {}),
    dismiss: (entry) => setMissed((all) => all.filter((other) => other !== entry)),
  };
}
