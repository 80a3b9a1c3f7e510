// Dead letters: how many of which reason, one with its bytes, and another attempt.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Confirm } from "/lib/confirm.js";
import { Do, doing, number, plural, Refused, Time, Waiting } from "/lib/ui.js";

const APART_MS = 2000;
const STEP = 10; // letters that are shown at once

export function Letters({ session }) {
  const [told, error] = useAnswer("/api/dead-letters", {}, ["health"], APART_MS);
  const [reason, choose] = useState("");
  const [asked, ask] = useState(null);
  const [done, finish] = useState(null);
  const can = (row) => !row.obstacle && !row.again;
  return html`<section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
    <p class="quiet">Messages that the workers could not work on. Another attempt sends the same bytes to the topic of posts, each letter once, and at most three attempts are made.</p>
    <${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} />`}
    ${told?.away && html`<p class="refused">Not followed: <span class="said">${told.away}</span></p>`}
    ${told && html`<${Counts} told=${told} reason=${reason} choose=${choose} />
      ${told.all > 0 && !session.read_only && html`<p class="row">
        ${told.known.includes(reason) && html`<${Do} run=${() => ask({ reason })}>Send all “${reason}” again<//>`}
        <${Do} run=${() => ask({ every: true })}>Send all again that can be<//></p>`}
      <${List} rows=${told.newest.filter((row) => !reason || row.reason === reason)} can=${can} retry=${session.read_only ? null : (row) => ask({ names: [row.id] })} />`}
    ${asked && html`<${Retry} asked=${asked} close=${() => ask(null)} finish=${finish} />`}
    <div role="status">${done && html`<${Outcome} done=${done} close=${() => finish(null)} />`}</div>
  </section>`;
}

function Counts({ told, reason, choose }) {
  if (!told.all) return html`<p>${told.ready ? "There are none." : "Reading them …"}</p>`;
  const all = [["", told.all], ...Object.entries(told.reasons)];
  return html`<div class="row" role="group" aria-label="By reason">
    ${all.map(([name, count]) => html`<button type="button" key=${name} class="chip" aria-pressed=${name === reason} onClick=${() => choose(name)}><span class="said">${name || "all"}</span> ${number(count)}</button>`)}
  </div>
  ${told.older > 0 && html`<p class="quiet">${plural(told.older, "older one")} are not counted here; <code>newsift dead-letters list</code> reads all.</p>`}`;
}

function List({ rows, can, retry }) {
  const [most, more] = useState(STEP);
  return html`<ul class="letters">
    ${rows.slice(0, most).map((row) => html`<${Letter} key=${`${row.partition}-${row.offset}`} row=${row} can=${can(row)} retry=${retry} />`)}
  </ul>
  ${rows.length > most && html`<${Do} run=${() => more(most + STEP)}>${plural(Math.min(STEP, rows.length - most), "older one")}<//>`}`;
}

function Letter({ row, can, retry }) {
  const [open, show] = useState(false);
  const why = row.again ? "it was sent again from here" : row.obstacle;
  return html`<li>
    <p class="row"><span class="badge said">${row.reason}</span> <strong class="said">${row.id}</strong> <span class="quiet"><${Time} at=${row.rejected_at} />, attempt ${row.attempt}, ${row.bytes === null ? "no bytes" : plural(row.bytes, "byte")}</span>
      <span class="said grows">${row.detail}</span>
      <button type="button" aria-expanded=${open} onClick=${() => show(!open)}>${open ? "Hide bytes" : "Show bytes"}</button>
      ${retry && can && html`<${Do} run=${() => retry(row)}>Send again<//>`}
      ${why && html`<span class="quiet">Not sent again: ${why}</span>`}</p>
    ${open && html`<${Bytes} row=${row} />`}
  </li>`;
}

function Bytes({ row }) {
  const [found, error] = useAnswer("/api/dead-letters/one", { partition: row.partition, offset: row.offset });
  if (!found) return html`<${Refused} error=${error} />${!error && html`<${Waiting} />`}`;
  return html`
    ${found.text === null ? html`<p class="quiet">It has no bytes.</p>` : html`<h3>As text${found.cut && ", its beginning"}</h3><pre class="bytes" tabindex="0">${found.text}</pre><h3>In hex${found.bytes > 512 && ", its beginning"}</h3><pre class="bytes" tabindex="0">${found.hex}</pre>`}
    <h3>Headers</h3><dl class="pairs">${found.headers.map(([name, value]) => html`<dt class="said">${name}</dt><dd class="said">${value}</dd>`)}${found.key !== null && html`<dt>key</dt><dd class="said">${found.key}</dd>`}</dl>`;
}

function Retry({ asked, close, finish }) {
  const what = asked.names ? `the letter ${asked.names[0]}` : asked.reason ? `all letters with the reason ${asked.reason}` : "all letters that can be";
  const run = async () => finish((await doing("/api/dead-letters/retry", asked)) ?? null);
  return html`<${Confirm} title="Send again?" yes="Send again" run=${run} close=${close}>
    <p>This sends <span class="said">${what}</span> to the topic of posts once more. What was sent again before stays; to know, the posts since the oldest of them are read, which may take a while.</p><//>`;
}

function Outcome({ done, close }) {
  const kept = Object.entries(done.kept);
  return html`<div class="card"><p>${plural(done.count, "letter")} sent again.</p>
    ${kept.length > 0 && html`<p>Not sent again:</p><ul>${kept.map(([why, count]) => html`<li>${number(count)}: <span class="said">${why}</span></li>`)}</ul>`}
    ${done.names.length > 0 && html`<details><summary>Which</summary><p class="said">${done.names.join(", ")}</p></details>`}
    <${Do} run=${close}>Close<//></div>`;
}
