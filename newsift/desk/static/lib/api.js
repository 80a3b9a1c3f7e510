// Requests to the desk, and the stream of its changes.
import { useEffect, useRef, useState } from "/vendor/preact.js";

const REQUEST_MS = 120_000; // Longer than the desk takes to answer anything.
const SILENCE_MS = 40_000; // The desk sends its changes at least every 16 seconds.
const RETRY_MS = 2000;
const MAX_RETRY_MS = 30000;
export const AWAY_STATUSES = [0, 502, 503]; // desk or broker does not answer
const REVOKE_MS = 60000; // A browser has begun to save a file by then.
export const NO_ANSWER = "the desk does not answer; is `newsift desk` still running?";

export class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function send(path, options) {
  const response = await fetch(path, options).catch(() => null);
  if (!response) throw new Refusal(0, NO_ANSWER);
  if (response.ok) return response;
  if (response.status === 401) dispatchEvent(new Event("newsift-token"));
  const refusal = await response.json().catch(() => null);
  throw new Refusal(response.status, refusal?.reason ?? `HTTP ${response.status}`);
}

async function request(path, options) {
  const response = await send(path, { signal: AbortSignal.timeout(REQUEST_MS), ...options });
  const body = await response.json().catch(() => null); // null where the answer is cut off
  if (!body) throw new Refusal(0, NO_ANSWER);
  return body;
}

const isSet = ([, value]) => value !== undefined && value !== null && value !== "";
const queryOf = (question) =>
  new URLSearchParams(Object.entries(question).filter(isSet)).toString();

export async function read(path, question = {}) {
  const query = queryOf(question);
  return (await request(query ? `${path}?${query}` : path)).answer;
}

// Performs an action under the user's name; resolves to {answer, messages}.
export async function act(path, question = {}, options = {}) {
  return request(path, {
    ...options,
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ by: userName(), ...question }),
  });
}

// The content of a file, or of a piece of one, as an action takes it.
export const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name ?? "the file"}: cannot be read`));
    reader.readAsDataURL(file);
  });

// Downloads the file that the desk answers with.
export async function download(path, question) {
  const response = await send(`${path}?${queryOf(question)}`);
  const encoded = response.headers.get("Content-Disposition").split("''")[1];
  const content = await response.blob().catch(() => {
    throw new Refusal(0, "the desk ended before the file was complete");
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = decodeURIComponent(encoded);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_MS);
}

export async function login(token) {
  await request("/api/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  logins += 1; // What was refused without a session is requested again.
  announceChange();
}

const NAME_KEY = "newsift.by";
let unstoredName = ""; // where the browser stores nothing

export function givenName() {
  try {
    return unstoredName || localStorage.getItem(NAME_KEY);
  } catch {
    return ""; // It is forbidden.
  }
}

export const userName = () => givenName() || "somebody";
export function setUserName(name) {
  try {
    localStorage.setItem(NAME_KEY, name);
    unstoredName = "";
  } catch {
    unstoredName = name;
  }
  dispatchEvent(new Event("storage")); // The browser sends it to other tabs only.
}

// The value of `read`, read again at each event of the window with this name.
export function useLatest(eventName, read) {
  const [value, setValue] = useState(read());
  useEffect(() => {
    const update = () => setValue(read());
    addEventListener(eventName, update);
    return () => removeEventListener(eventName, update);
  }, []);
  return value;
}

let numbers = {}; // versions of the parts of the desk
let start = ""; // the id of the desk's start, which numbers are of
let restarts = 0;
let logins = 0;
let silence = null; // Why the desk sends no changes.
let source = null;
let silenceTimer = 0;
let listening = false;

const announceChange = () => dispatchEvent(new Event("newsift-change"));

function setSilence(reason) {
  silence = reason;
  announceChange();
}

export const useSilence = () => useLatest("newsift-change", () => silence);

// The number of times that another start of the desk has answered than before.
export const useRestarts = () => useLatest("newsift-change", () => restarts);

function stopListening() {
  clearTimeout(silenceTimer);
  source?.close();
  source = null;
}

function expectChange() {
  clearTimeout(silenceTimer);
  silenceTimer = setTimeout(() => {
    stopListening();
    setSilence(NO_ANSWER);
    listen();
  }, SILENCE_MS);
}

export function listen() {
  listening = true;
  if (source || document.hidden) return;
  source = new EventSource("/api/changes");
  expectChange();
  source.addEventListener("change", (event) => {
    if (start && event.lastEventId !== start) restarts += 1;
    start = event.lastEventId;
    numbers = JSON.parse(event.data);
    expectChange();
    setSilence(null);
  });
  source.onerror = () => {
    if (source?.readyState !== EventSource.CLOSED) return setSilence(NO_ANSWER);
    stopListening();
    // Without a session this leads to the login.
    read("/api/session")
      .then(() => "not updated: too many pages are open", () => NO_ANSWER)
      .then(setSilence)
      .then(() => setTimeout(listen, RETRY_MS));
  };
}

// A browser has six connections to a host for all tabs: a hidden tab closes its own.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && listening) return listen();
  stopListening();
});

// Requests an answer, and again when one of these parts changes: at most once in `intervalMs`
// milliseconds, and not while the tab is hidden. A request is repeated where the desk or the
// broker does not answer. Returns [answer, error, refresh].
export function useAnswer(path, question, parts = [], intervalMs = 1000) {
  const [state, setState] = useState([undefined, undefined]);
  const refresh = useRef(() => {});
  useEffect(() => {
    let gone = false;
    let busy = false;
    let due = false;
    let timer = 0;
    let repetition = 0;
    let pauseMs = RETRY_MS;
    const readVersion = () =>
      JSON.stringify([!silence, logins, restarts, ...parts.map((part) => numbers[part])]);
    let version = readVersion();
    const ask = async () => {
      if (busy || document.hidden) return void (due = true);
      busy = true;
      due = false;
      clearTimeout(repetition);
      try {
        const answer = await read(path, question);
        if (gone) return;
        setState([answer, undefined]);
        pauseMs = RETRY_MS;
      } catch (error) {
        if (gone) return;
        setState(([old]) => [old, error]);
        if (AWAY_STATUSES.includes(error.status)) {
          repetition = setTimeout(ask, pauseMs);
          pauseMs = Math.min(2 * pauseMs, MAX_RETRY_MS);
        }
      }
      timer = setTimeout(() => {
        busy = false;
        if (due && !gone) ask();
      }, intervalMs);
    };
    const update = () => {
      const latest = readVersion();
      if (!silence && latest !== version) ask();
      version = latest;
    };
    const appear = () => due && !busy && ask();
    refresh.current = ask;
    setState([undefined, undefined]);
    ask();
    addEventListener("newsift-change", update);
    document.addEventListener("visibilitychange", appear);
    return () => {
      gone = true;
      clearTimeout(timer);
      clearTimeout(repetition);
      removeEventListener("newsift-change", update);
      document.removeEventListener("visibilitychange", appear);
    };
  }, [`${path}?${queryOf(question)}`]);
  return [...state, () => refresh.current()];
}
