// A queue as the page sees it: the question now, shown before the desk has heard the last answer.
import { useEffect, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { put, useUnsaved } from "/views/event/judge/unsaved.js";

const DRAWING = 700, EMPTY = 6000; // milliseconds till a queue that is frozen, or empty, is asked for again
const MOST_MISSED = 20;
const same = (one, other) => one && other && one.platform === other.platform && one.id === other.id;

// What to show: while one answer is on its way the post that comes after it, which is known already.
function ahead(state, waiting) {
  if (!waiting.length) return state.question;
  const [{ path, question }] = waiting;
  const known = waiting.length === 1 && path.endsWith("/answer") && same(question, state.question);
  return (known && state.then?.[question.verdict === "on" ? "on" : "off"]) || undefined;
}

// The queue's latest state: of two of one queue that which knows more answers.
function useLatest(key) {
  const [state, set] = useState(null);
  useEffect(() => set(null), [key]);
  const take = (next) =>
    set((old) => (old?.queue === next.queue && next.turn < old.turn ? old : { ...old, ...next }));
  return [state, take];
}

export function useAsking(event, kind, by) {
  const [found, refused, again] = useAnswer("/api/judge/ask", { event, by, kind }, ["labels", "events", "seeds"]);
  const [state, take] = useLatest(JSON.stringify([event, kind, by]));
  const [missed, miss] = useState([]);
  const [undoing, undoSoon] = useState(0);
  const unsaved = useUnsaved((item, answer, error) => {
    const why = error?.message ?? answer?.missed;
    if (why) miss((all) => [...all.slice(1 - MOST_MISSED), { ...item.question, text: item.text, why }]);
    if (error || !answer) again();
    else if (answer?.queue === state?.queue) take(answer);
  });
  const waiting = state ? unsaved.items.filter((item) => item.question.queue === state.queue) : [];
  const still = useRef(false);
  still.current = waiting.length > 0;
  const does = (what, more, text) => put(`/api/judge/${what}`, { by, event, kind, queue: state.queue, ...more }, text);
  const judges = (what, post, verdict) => does(what, { platform: post.platform, id: post.id, verdict }, post.text);
  useEffect(() => {
    if (found && !found.drawing && !(still.current && found.queue === state?.queue)) take(found);
    const wait = found?.drawing ? DRAWING : found?.empty ? EMPTY : 0;
    const timer = wait && setTimeout(again, wait);
    return () => clearTimeout(timer);
  }, [found]);
  useEffect(() => {
    if (!undoing || waiting.length || !state) return;
    undoSoon(undoing - 1);
    if (state.undo) does("undo", { step: state.undo.step });
  }, [undoing, waiting.length, state]);
  const question = state && ahead(state, waiting);
  return {
    state, question, refused, missed, unsaved, again,
    waiting: waiting.length,
    answer: (verdict) => question && judges("answer", question, verdict),
    correct: (post, verdict) => state && judges("correct", post, verdict),
    undo: () => undoSoon((n) => n + 1),
    anew: () => does("anew", {}),
    forget: (one) => miss((all) => all.filter((other) => other !== one)),
  };
}
