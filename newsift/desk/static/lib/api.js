// What the page asks the desk, and how it hears that something has changed.
import { useEffect, useRef, useState } from "/vendor/preact.js";

export class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refusal(0, "the desk does not answer; is `newsift desk` still running?");
  }
  const said = await response.json().catch(() => ({ reason: `HTTP ${response.status}` }));
  if (response.status === 401) dispatchEvent(new Event("newsift-token"));
  if (!response.ok) throw new Refusal(response.status, said.reason);
  return said;
}

const given = (question) =>
  new URLSearchParams(Object.entries(question).filter(([, value]) => value !== undefined && value !== null && value !== ""));

// Ask something; resolves to the answer.
export async function read(path, question = {}) {
  const query = given(question).toString();
  return (await asked(query ? `${path}?${query}` : path)).answer;
}

// Do something, under the name of who sits here; resolves to {answer, told}.
export async function act(path, question = {}) {
  return asked(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ by: whoami(), ...question }),
  });
}

export async function login(token) {
  await asked("/api/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
}

export const whoami = () => localStorage.getItem("newsift.by") || "somebody";
export function iam(name) {
  localStorage.setItem("newsift.by", name);
  dispatchEvent(new Event("storage")); // as other tabs hear of it
}

// The pulse: numbers that grow when a part of the desk has changed.
const listeners = new Set();
let numbers = {};
let online = true;

let source = null;
let wanted = false;

export function listen() {
  wanted = true;
  if (source || document.hidden) return;
  source = new EventSource("/api/beats");
  const tell = () => listeners.forEach((each) => each(numbers, online));
  source.addEventListener("beat", (event) => {
    numbers = JSON.parse(event.data);
    online = true;
    tell();
  });
  source.onerror = () => {
    online = false;
    tell();
    if (source?.readyState !== EventSource.CLOSED) return;
    source = null;
    setTimeout(() => read("/api/session").then(listen, listen), 2000); // the token may be asked for again
  };
}

// A browser has six connections to a host for all its tabs: one that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && wanted) return listen();
  source?.close();
  source = null;
});

// Whether the desk itself answers.
export function useOnline() {
  const [state, set] = useState(online);
  useEffect(() => {
    const hear = (_, now) => set(now);
    listeners.add(hear);
    return () => listeners.delete(hear);
  }, []);
  return state;
}

// The answer to a question, asked again whenever one of these parts has changed, at most once in
// `apart` milliseconds and never while the tab is hidden: [answer, refusal, ask again].
export function useAnswer(path, question, parts = [], apart = 1000) {
  const [state, set] = useState([undefined, undefined]);
  const key = `${path}?${given(question)}`;
  const again = useRef(() => {});
  useEffect(() => {
    let gone = false, busy = false, due = false, timer = 0, seen = "";
    const ask = async () => {
      if (busy || document.hidden) return void (due = true);
      busy = true;
      due = false;
      try {
        const answer = await read(path, question);
        if (!gone) set([answer, undefined]);
      } catch (error) {
        if (!gone) set(([old]) => [old, error]);
      }
      timer = setTimeout(() => {
        busy = false;
        if (due && !gone) ask();
      }, apart);
    };
    const hear = (now, on) => {
      const told = JSON.stringify([on, ...parts.map((part) => now[part])]);
      if (on && told !== seen) ask();
      seen = told;
    };
    const shown = () => due && !busy && ask();
    seen = JSON.stringify([online, ...parts.map((part) => numbers[part])]);
    again.current = ask;
    set([undefined, undefined]);
    ask();
    listeners.add(hear);
    document.addEventListener("visibilitychange", shown);
    return () => {
      gone = true;
      clearTimeout(timer);
      listeners.delete(hear);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key]);
  return [...state, () => again.current()];
}
