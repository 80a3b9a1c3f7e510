// A judge's queue.
import { useEffect, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { enqueue, sendNext, useOutbox } from "/lib/outbox.js";

const DRAWING_POLL_MS = 700; // while a queue is drawn
const EMPTY_POLL_MS = 6000; // while a queue has no question
const MAX_MISSED = 20;
const PARTS = ["labels", "events", "seeds"];
const isSame = (one, other) => other && one.platform === other.platform && one.id === other.id;

// While one answer is on its way, the question that follows it is shown.
function nextQuestion(state, waiting) {
  if (!waiting.length) return state.question;
  const [{ path, question }] = waiting;
  const isCurrent = path.endsWith("/answer") && isSame(question, state.question);
  if (waiting.length > 1 || !isCurrent) return undefined;
  return state.following?.[question.verdict === "on" ? "on" : "off"] || undefined;
}

export function useQueue(event, kind, by, goal, plan) {
  const key = { event, by, kind, ...plan, precision: goal?.[0], confidence: goal?.[1] };
  const [latest, error, refresh] = useAnswer("/api/judge/question", key, PARTS);
  const [state, setState] = useState(null);
  const [missed, setMissed] = useState([]);
  const [undos, setUndos] = useState(0); // Undos that wait for the answers before them.
  const isWaiting = useRef(false);
  const mergeState = (next) =>
    setState((old) =>
      old?.queue === next.queue && next.change < old.change ? old : { ...old, ...next },
    );
  const outbox = useOutbox((item, answer, failure) => {
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
  const current = state && nextQuestion(state, waiting);
  return {
    state,
    question: current,
    error,
    missed,
    refresh,
    waiting: waiting.length,
    problem: outbox.problem,
    unsaved: outbox.items.length,
    retry: sendNext,
    answer: (verdict) => current && judge("answer", current, verdict),
    correct: (post, verdict) => state && judge("correct", post, verdict),
    // A refused answer may be of another event, or by another name, than the page shows by now.
    correctMissed: ({ text, why, other, ...question }) =>
      enqueue("/api/judge/correct", question, text),
    undo: () => setUndos((n) => n + 1),
    redraw: () => send("redraw", {}),
    dismiss: (entry) => setMissed((all) => all.filter((other) => other !== entry)),
  };
}
