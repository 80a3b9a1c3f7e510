// Shared by all pages: numbers, times, notices, buttons, tables, dialogs and highlighted texts.
import { html, useEffect, useLayoutEffect, useRef, useState } from "/vendor/preact.js";
import { act, useLatest } from "/lib/api.js";

const NOTICE_MS = 5000;
const BAD_NOTICE_MS = 12000;
const MAX_DIGITS = 9;
export const isMissing = (value) => value === null || value === undefined;

const count = new Intl.NumberFormat("en", { signDisplay: "negative" }); // no minus zero
export const number = (value) => (isMissing(value) ? "–" : count.format(value));
export const score = (value) =>
  isMissing(value) ? "–" : value.toFixed(3).replace(/^-(?=[0.]+$)/, "");
// Only 1 is 100 %, and only 0 is 0 %: a share near them has more digits.
export function percent(share, digits = 1) {
  const text = (100 * share).toFixed(digits);
  const isExact = share === 0 || share === 1 || digits === MAX_DIGITS;
  if (!isExact && (+text === 0 || +text === 100)) return percent(share, digits + 1);
  return `${+text} %`;
}
export const plural = (n, one, more = `${one}s`) => `${number(n)} ${n === 1 ? one : more}`;
export function rate(value) {
  if (value > 0 && value < 0.1) return `${+value.toPrecision(1)}`;
  return value >= 10 ? number(Math.round(value)) : value.toFixed(1);
}
// Where the last page begins.
export const lastPage = (total, size) => Math.max(0, Math.ceil(total / size) - 1) * size;
// One score, or the lowest and the highest of several.
export const scores = ([low, high] = []) =>
  high > low ? `${score(low)} to ${score(high)}` : score(low);

const clock = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const TICK_MS = 30_000;
const HOUR_MIN = 60;
const DAY_MIN = 24 * HOUR_MIN;
setInterval(() => dispatchEvent(new Event("newsift-tick")), TICK_MS);

function timeText(moment) {
  const minutes = Math.floor((Date.now() - moment) / 60_000);
  if (minutes < 0 || minutes >= DAY_MIN) return clock.format(moment);
  if (minutes < 1) return "just now";
  return minutes < HOUR_MIN ? `${minutes} min ago` : `${Math.floor(minutes / HOUR_MIN)} h ago`;
}

// Up to a day ago as an age, else in the reader's time zone; the tooltip adds UTC.
export function Time({ at }) {
  const moment = new Date(at ?? NaN);
  useLatest("newsift-tick", Date.now); // The age grows.
  if (isNaN(moment)) return html`<span>–</span>`;
  const utc = moment.toISOString();
  return html`<time datetime=${utc} title=${`${clock.format(moment)} (${utc})`}>
    ${timeText(moment)}</time>`;
}

export const eventAddress = (name, tab = "matches") => `#/event/${encodeURIComponent(name)}/${tab}`;

// The page of an address that somebody else wrote: of the web, and without a login. Else undefined.
function pageOf(address) {
  try {
    const page = new URL(address);
    const isSafe = ["http:", "https:"].includes(page.protocol) && !page.username && !page.password;
    return isSafe ? page : undefined;
  } catch {
    return undefined; // It is not an address.
  }
}

export function ExternalLink({ href, children, ...rest }) {
  const page = pageOf(href);
  if (!page) return html`<span>${children}</span>`;
  return html`<a href=${page.href} target="_blank" rel="noopener noreferrer nofollow" ...${rest}>
    ${children}</a>`;
}

const MAX_PATH_CHARS = 60;

// A link by its host, as browsers ask for it, and the beginning of its path.
function PageLink({ href }) {
  const page = pageOf(href);
  if (!page) return html`<bdi class="quiet">${visible(href)}</bdi>`;
  const path = page.pathname + page.search;
  const shown = path.length > MAX_PATH_CHARS ? `${path.slice(0, MAX_PATH_CHARS)}…` : path;
  return html`<${ExternalLink} href=${href}><bdi><b>${page.host}</b>${shown}</bdi><//>`;
}

// What a post has beside its text: what its pictures show, its link card, its links. Nothing of it
// is loaded.
export function Attachments({ post }) {
  const { alt = [], card, links = [], why } = post;
  const words = (text) => html`<${HighlightedText} text=${text} why=${why} />`;
  const picture = (text) =>
    html`<p class="picture" dir="auto"><span class="badge">picture</span> ${words(text)}</p>`;
  const others = links.filter((link) => link !== card?.url);
  const preview = card && html`<div class="preview">
    <p dir="auto"><b>${words(card.title)}</b></p>
    ${card.description && html`<p dir="auto">${words(card.description)}</p>`}
    ${card.url && html`<p><${PageLink} href=${card.url} /></p>`}</div>`;
  return html`${alt.map(picture)}${preview}
    ${others.length > 0 && html`<p class="links quiet">
      ${others.map((link) => html`<${PageLink} href=${link} /> `)}</p>`}`;
}

export const ErrorText = ({ error }) =>
  error && html`<p class="refused" role="alert">${error.message}</p>`;

// Characters that turn the order of letters around, as signs that can be seen.
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
const visible = (text = "") =>
  text.replace(TURNING, (sign) => `⟨U+${sign.charCodeAt(0).toString(16).toUpperCase()}⟩`);

// Words of other people, of which each line is set in its own direction.
export const quoted = (text) => html`<span class="quoted">${visible(text)}</span>`;

// A paragraph of a CSS class, if there is a text.
export const paragraph = (kind, text, role) =>
  text && html`<p class=${kind} role=${role}>${text}</p>`;

// A function that gives the attributes of the input for one field.
export const fieldInputs = (fields, setFields) => (name) => ({
  value: fields[name],
  onInput: ({ target }) => setFields({ ...fields, [name]: target.value }),
});

export const LoadingText = ({ what = "Asking" }) =>
  html`<p class="waiting" role="status">${what} …</p>`;

// The error of a request, or that its answer is on its way. It is always an element: where a
// component renders nothing, this version of Preact moves what follows, and focus is lost.
export const LoadStatus = ({ answer, error, what }) =>
  html`<div>${error && html`<${ErrorText} error=${error} />`}
    ${!answer && !error && html`<${LoadingText} what=${what} />`}</div>`;

// A table that scrolls within the page; columns whose head begins with # hold numbers.
export function Table({ name, caption, heads, rows, kind }) {
  const isNumber = heads.map((text) => text.startsWith("#"));
  const kindOf = (n) => (isNumber[n] ? "number" : undefined);
  const head = (text, n) =>
    html`<th scope="col" class=${kindOf(n)}>${isNumber[n] ? text.slice(1) : text}</th>`;
  const cell = (content, n) => html`<td class=${kindOf(n)}>${content}</td>`;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${name}><table
    class=${kind}>
    ${caption && html`<caption>${caption}</caption>`}
    <thead><tr>${heads.map(head)}</tr></thead>
    <tbody>${rows.map((cells) => html`<tr>${cells.map(cell)}</tr>`)}</tbody>
  </table></div>`;
}

// A list of names with values; rows that are false are left out.
export function Facts({ rows, kind = "facts" }) {
  const fact = ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<dl class=${kind}>${rows.filter(Boolean).map(fact)}</dl>`;
}

export const useWide = () => useLatest("resize", () => matchMedia("(min-width: 64rem)").matches);

// One of the numbered steps of a page, with its state. With `isDone` it is folded to its heading
// where the steps are below each other.
export function Step({ number, title, state, isDone, children }) {
  const isWide = useWide();
  const head = html`<h2><span class="count">${number}</span> ${title}
    ${state && html`<span class="badge">${state}</span>`}</h2>`;
  if (isWide || isDone === undefined) return html`<section class="step">${head}${children}</section>`;
  return html`<section class="step"><details open=${!isDone}><summary>${head}</summary>
    ${children}</details></section>`;
}

// Loads a module when it is first needed, and shows its default export.
export function LazyView({ load, ...rest }) {
  const [[loaded, View, error], setState] = useState([]);
  useEffect(() => {
    let gone = false;
    const failure = new Error("this page cannot be loaded; reload it once `newsift desk` runs");
    load().then(
      (module) => gone || setState([load, module.default]),
      () => gone || setState([load, null, failure]),
    );
    return () => (gone = true);
  }, [load]);
  if (loaded !== load) return html`<${LoadingText} what="Loading" />`;
  return error ? html`<${ErrorText} error=${error} />` : html`<${View} ...${rest} />`;
}

// Short notices, which a screen reader reads out: notify("saved").
export const notify = (text, bad = false) =>
  dispatchEvent(new CustomEvent("newsift-notice", { detail: { text, bad, id: Math.random() } }));
export function Notices() {
  const [notices, setNotices] = useState([]);
  useEffect(() => {
    const add = ({ detail: notice }) => {
      setNotices((all) => [...all.slice(-3), notice]);
      const remove = () => setNotices((all) => all.filter((other) => other !== notice));
      setTimeout(remove, notice.bad ? BAD_NOTICE_MS : NOTICE_MS);
    };
    addEventListener("newsift-notice", add);
    return () => removeEventListener("newsift-notice", add);
  }, []);
  const line = ({ id, bad, text }) => html`<p key=${id} class=${bad ? "bad" : ""}>${text}</p>`;
  return html`<div class="news" role="status" aria-live="polite">${notices.map(line)}</div>`;
}

// Whether the component is still shown: what ends later must not lead away from another page.
export function useMounted() {
  const mounted = useRef(true);
  useEffect(() => () => (mounted.current = false), []);
  return mounted;
}

// Performs an action and notifies the result; resolves to undefined if it is refused.
export async function perform(path, question, done) {
  try {
    const { answer, messages } = await act(path, question);
    for (const line of messages) notify(line);
    if (done) notify(done);
    return answer ?? null;
  } catch (error) {
    notify(error.message, true);
    return undefined;
  }
}

// A button that is busy while its action runs, and keeps the focus.
export function Button({ run, children, kind = "", ...rest }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (busy) return;
    setBusy(true);
    try {
      await run();
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class=${kind} onClick=${press} ...${rest}
    aria-disabled=${busy} aria-busy=${busy}>${children}</button>`;
}

// A dialog that asks before something is done; it stays open where `run` resolves to false.
export function Confirm({ title, yes, run, close, kind = "main", children }) {
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const confirm = async () => {
    if ((await run()) === false) return;
    dialog.current?.close();
    close();
  };
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="confirm">
    <form onSubmit=${(event) => event.preventDefault()}><h2 id="confirm">${title}</h2>${children}
    <p class="row"><${Button} run=${() => dialog.current.close()}>Cancel<//>
      <${Button} type="submit" kind=${kind} run=${confirm}>${yes}<//></p></form></dialog>`;
}

// A button that asks before its action runs, as it was when asked: what has changed meanwhile is
// refused by the desk. `text` is on it, `children` are in the dialog.
export function ConfirmButton({ text, kind, title, yes, run, yesKind, children, ...rest }) {
  const [asked, setAsked] = useState(null); // the action
  const confirm = html`<${Confirm} title=${title} yes=${yes} run=${asked} kind=${yesKind}
    close=${() => setAsked(null)}>${children}<//>`;
  return html`<button type="button" class=${kind} onClick=${() => setAsked(() => run)} ...${rest}>
    ${text}</button>${asked && confirm}`;
}

// A labelled input, with a note below it.
export const Field = ({ label, note, children }) =>
  html`<label class="field"><span>${label}</span>${children}
    ${note && html`<small class="quiet">${note}</small>`}</label>`;

// Files may be dropped anywhere on the page; otherwise the browser would open them.
export function useDroppedFiles(take, isOff = false) {
  const latest = useRef();
  latest.current = take;
  useEffect(() => {
    if (isOff) return undefined;
    const over = (event) => event.dataTransfer.types.includes("Files") && event.preventDefault();
    const drop = (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      latest.current([...event.dataTransfer.files]);
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, [isOff]);
}

// A choice among options, each a value and its text.
export const Select = ({ label, value, options, set }) =>
  html`<label>${label}${" "}<select value=${value} onChange=${(event) => set(event.target.value)}>
    ${options.map(([each, text]) => html`<option value=${each}>${text}</option>`)}</select></label>`;

const TYPING = "input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]";

// Keys that work while nobody types and no dialog is open, with Caps Lock too: {"y": f}.
export function useKeys(keys) {
  // A layout effect: a key after the page has changed must mean what the page shows.
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.target.closest(TYPING) || document.querySelector("dialog[open]")) return;
      const run = keys[event.key] ?? keys[event.key.toLowerCase()];
      if (event.ctrlKey || event.metaKey || event.altKey || !run) return;
      event.preventDefault();
      run(event);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
}

const WORD = /(#?)([\p{L}\p{M}\p{N}_]+)/gu;
// Words that are never highlighted.
const STOP_WORDS = new Set(
  (
    "a an and are as at be been but by can do for from had has have he her his i if in into is it " +
    "its my no not of on or our she so that the their them there they this to up was we were what " +
    "when which who will with you your"
  ).split(" "),
);
const SPECIAL = /[.*+?^${}()|[\]\\]/g;

// A text whose words are highlighted by their contributions; `why` is [[word, contribution], …].
// In a hashtag the parts are highlighted.
export function HighlightedText({ text: written, why = [] }) {
  const text = visible(written);
  const named = why.filter(([word]) => word).map(([word, part]) => [word.toLowerCase(), part]);
  const parts = new Map(named);
  const top = Math.max(0, ...[...parts.values()].map(Math.abs));
  if (!top) return quoted(text);
  const words = [...parts.keys()].sort((a, b) => b.length - a.length);
  const inside = new RegExp(
    `(${words.map((word) => word.replace(SPECIAL, "\\$&")).join("|")})`,
    "iu",
  );
  const light = (piece) => {
    const part = parts.get(piece.toLowerCase()) ?? 0;
    if (Math.abs(part) < top / 20 || STOP_WORDS.has(piece.toLowerCase())) return piece;
    const kind = part < 0 ? "cold" : `lamp${Math.min(3, Math.floor((part / top) * 4))}`;
    return html`<mark class=${kind} title=${score(part)}>${piece}</mark>`;
  };
  const pieces = [];
  let end = 0;
  for (const { 0: token, 1: sign, 2: word, index } of text.matchAll(WORD)) {
    const split = sign && !parts.has(word.toLowerCase()) ? word.split(inside) : [word];
    pieces.push(text.slice(end, index), sign, ...split.map(light));
    end = index + token.length;
  }
  return html`<span class="quoted">${pieces}${text.slice(end)}</span>`;
}
