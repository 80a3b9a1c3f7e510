// Which matches are shown: by time, language, platform, score, news and words.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";

export const UNFILTERED = Object.freeze({});
const TIMES = [["", "any time"], [5, "the last 5 minutes"], [60, "the last hour"], [360, "the last 6 hours"]];
const LATER_MS = 300; // after the last key that was typed

const without = (all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== "" && value !== undefined));

export function Filters({ now, told, change }) {
  const set = (name, value) => {
    const next = without({ ...now, [name]: value });
    change(Object.keys(next).length ? next : UNFILTERED);
  };
  const chosen = (name) => (event) => set(name, event.target.value);
  return html`<form class="row filters" role="search" aria-label="Filters" onSubmit=${(event) => event.preventDefault()}>
    <${Typed} label="Words or author" now=${now.text} set=${(value) => set("text", value)} type="search" maxlength="100" />
    <label>Time <select value=${now.minutes ?? ""} onChange=${chosen("minutes")}>${TIMES.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select></label>
    <${Choice} label="Language" now=${now.lang} names=${told?.languages} set=${chosen("lang")} />
    <${Choice} label="Platform" now=${now.platform} names=${told?.platforms} set=${chosen("platform")} />
    <${Typed} label="Score from" now=${now.least} set=${(value) => set("least", value)} type="number" min="-1" max="1" step="0.01" class="short" />
    <${Typed} label="to" now=${now.most} set=${(value) => set("most", value)} type="number" min="-1" max="1" step="0.01" class="short" />
    <label class="row"><input type="checkbox" checked=${!!now.new} onChange=${(event) => set("new", event.target.checked || "")} /> New stories only</label>
    ${now !== UNFILTERED && html`<button type="button" onClick=${() => change(UNFILTERED)}>All</button>`}
  </form>`;
}

function Choice({ label, now = "", names = [], set }) {
  const all = names.includes(now) || !now ? names : [now, ...names];
  return html`<label>${label} <select value=${now} onChange=${set}><option value="">any</option>${all.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`;
}

// A field whose value counts once nobody has typed for a moment.
function Typed({ label, now = "", set, ...rest }) {
  const [typed, type] = useState(now);
  const timer = useRef(0), last = useRef();
  last.current = set;
  useEffect(() => type(now), [now]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (event) => {
    const { value, validity } = event.target;
    type(value);
    clearTimeout(timer.current);
    if (validity.valid) timer.current = setTimeout(() => last.current(value), LATER_MS);
  };
  return html`<label>${label} <input value=${typed} onInput=${input} autocomplete="off" ...${rest} /></label>`;
}
