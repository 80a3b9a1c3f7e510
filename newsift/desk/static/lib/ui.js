// What every page is made of: words, times, notices, and what people press.
import { html, useEffect, useLayoutEffect, useState } from "/vendor/preact.js";
import { act } from "/lib/api.js";

const count = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : count.format(value));
export const score = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
export const percent = (share) => `${+(100 * share).toFixed(1)} %`;
export const plural = (n, one, more = `${one}s`) => `${number(n)} ${n === 1 ? one : more}`;

const clock = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
// A moment in the reader's own time; the title says it in UTC.
export function Time({ at }) {
  const moment = new Date(at ?? NaN);
  if (isNaN(moment)) return html`<span>–</span>`;
  return html`<time datetime=${moment.toISOString()} title=${moment.toISOString()}>${clock.format(moment)}</time>`;
}

// The address of an event's page, or of one of its tabs.
export const eventPage = (name, tab = "matches") => `#/event/${encodeURIComponent(name)}/${tab}`;

// A link out, to a web address alone: what a post names may be anything.
export function Out({ href, children }) {
  let safe = false;
  try {
    safe = ["http:", "https:"].includes(new URL(href).protocol);
  } catch {
    return html`<span>${children}</span>`;
  }
  return safe ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow">${children}</a>` : html`<span>${children}</span>`;
}

// What may be wider than the page, and is reached by keys too.
export const Scrolls = ({ name, children }) => html`<div class="scrolls" tabindex="0" role="region" aria-label=${name}>${children}</div>`;

// Something that went wrong, told once and in words.
export const Refused = ({ error }) => error && html`<p class="refused" role="alert">${error.message}</p>`;

export const Waiting = ({ what = "Asking" }) => html`<p class="waiting" role="status">${what} …</p>`;

// What a module shows, fetched when it is first wanted.
export function Fetched({ load, ...rest }) {
  const [[loaded, View, error], set] = useState([]);
  useEffect(() => {
    let gone = false;
    load().then(
      (module) => gone || set([load, module.default]),
      () => gone || set([load, null, new Error("this page cannot be fetched; reload it once `newsift desk` runs")]),
    );
    return () => (gone = true);
  }, [load]);
  if (loaded !== load) return html`<${Waiting} what="Fetching" />`;
  return error ? html`<${Refused} error=${error} />` : html`<${View} ...${rest} />`;
}

// Short news for a moment, read out by a screen reader: tell("saved").
const tellers = new Set();
export const tell = (text, bad = false) => tellers.forEach((each) => each({ text, bad, id: Math.random() }));
export function News() {
  const [news, set] = useState([]);
  useEffect(() => {
    const hear = (each) => {
      set((all) => [...all.slice(-3), each]);
      setTimeout(() => set((all) => all.filter((other) => other !== each)), each.bad ? 12000 : 5000);
    };
    tellers.add(hear);
    return () => tellers.delete(hear);
  }, []);
  return html`<div class="news" role="status" aria-live="polite">
    ${news.map((each) => html`<p key=${each.id} class=${each.bad ? "bad" : ""}>${each.text}</p>`)}
  </div>`;
}

// Do something, say how it ended, and give its answer; undefined where it was refused.
export async function doing(path, question, done) {
  try {
    const { answer, told } = await act(path, question);
    for (const line of told ?? []) tell(line);
    if (done) tell(done);
    return answer ?? null;
  } catch (error) {
    tell(error.message, true);
    return undefined;
  }
}

// A button that cannot be pressed twice while what it does is under way, and keeps the focus.
export function Do({ run, children, kind = "", ...rest }) {
  const [busy, set] = useState(false);
  const press = async () => {
    if (busy) return;
    set(true);
    try {
      await run();
    } finally {
      set(false);
    }
  };
  return html`<button type="button" class=${kind} onClick=${press} ...${rest} aria-disabled=${busy} aria-busy=${busy}>${children}</button>`;
}

// Keys that work while nobody types or is asked: {"y": f}; they are listed where they are used.
export function useKeys(keys) {
  // As soon as the page shows something new: a key that came before the effect would mean the old.
  useLayoutEffect(() => {
    const press = (event) => {
      const typing = event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
      if (typing || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const run = keys[event.key];
      if (run) {
        event.preventDefault();
        run(event);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
}

const WORD = /(#?)([\p{L}\p{M}\p{N}_]+)/gu;

// A text with the words lit that made its score, and the parts of a hashtag; `why` is [[word, part], …].
export function Lit({ text, why = [] }) {
  const parts = new Map(why.filter(([word]) => word).map(([word, part]) => [word.toLowerCase(), part]));
  const top = Math.max(0, ...[...parts.values()].map(Math.abs));
  if (!top) return html`<span class="said">${text}</span>`;
  const words = [...parts.keys()].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const inside = new RegExp(`(${words.join("|")})`, "iu");
  const light = (piece) => {
    const part = parts.get(piece.toLowerCase()) ?? 0;
    if (Math.abs(part) < top / 20) return piece;
    const lamp = part < 0 ? "cold" : `lamp${Math.min(3, Math.floor((part / top) * 4))}`;
    return html`<mark class=${lamp} title=${part.toFixed(3)}>${piece}</mark>`;
  };
  const pieces = [];
  let end = 0;
  for (const { 0: found, 1: sign, 2: word, index } of text.matchAll(WORD)) {
    pieces.push(text.slice(end, index), sign, ...(sign && !parts.has(word.toLowerCase()) ? word.split(inside) : [word]).map(light));
    end = index + found.length;
  }
  return html`<span class="said">${pieces}${text.slice(end)}</span>`;
}
