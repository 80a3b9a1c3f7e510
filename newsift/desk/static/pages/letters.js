// Dead letters: counts by reason, single letters with their bytes, and retries.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Button, Confirm, Facts, LoadStatus, number, paragraph, perform, plural } from "/lib/ui.js";
import { quoted, Time } from "/lib/ui.js";

const REFRESH_MS = 2000;
const LETTERS_PER_STEP = 10;

export function DeadLetters({ session }) {
  const [data, error] = useAnswer("/api/dead-letters", {}, ["health"], REFRESH_MS);
  const [reason, setReason] = useState("");
  const [choice, setChoice] = useState(null); // {names}, {reason} or {every}
  const [result, setResult] = useState(null);
  const mayRetry = !session.read_only;
  const retryReason = html`<${Button} run=${() => setChoice({ reason })}>
    Send all “${reason}” again<//>`;
  const buttons = html`<p class="row">${data?.retryable.includes(reason) && retryReason}
    <${Button} run=${() => setChoice({ every: true })}>Send all again that can be<//></p>`;
  const rows = data?.newest.filter((row) => !reason || row.reason === reason);
  const letters = html`<${Counts} data=${data} reason=${reason} choose=${setReason} />
    ${data?.all > 0 && mayRetry && buttons}
    <${List} rows=${rows} retry=${mayRetry && ((row) => setChoice({ names: [row.id] }))} />`;
  const confirm = html`<${Retry} choice=${choice} close=${() => setChoice(null)}
    setResult=${setResult} />`;
  return html`<section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
    <p class="quiet">Messages that the workers could not work on. Another attempt sends the same
      bytes to the topic of posts, each letter once, and at most three attempts are made.</p>
    <${LoadStatus} answer=${data} error=${error} />
    ${data?.error && html`<p class="refused">Not read: ${quoted(data.error)}</p>`}
    ${data && letters}${choice && confirm}
    <div role="status">
      ${result && html`<${Result} result=${result} close=${() => setResult(null)} />`}</div>
  </section>`;
}

function Counts({ data, reason, choose }) {
  if (!data.all) return paragraph("", data.ready ? "There are none." : "Reading them …");
  const chip = ([name, count]) =>
    html`<button type="button" key=${name} class="chip" aria-pressed=${name === reason}
      onClick=${() => choose(name)}>${quoted(name || "all")}
      ${" "}${number(count)}</button>`;
  const older = html`${plural(data.older, "older one")} are not counted here;
    ${" "}<code>newsift dead-letters list</code> reads all.`;
  return html`<div class="row" role="group" aria-label="By reason">
    ${[["", data.all], ...Object.entries(data.reasons)].map(chip)}</div>
    ${paragraph("quiet", data.older > 0 && older)}`;
}

function List({ rows, retry }) {
  const [most, setMost] = useState(LETTERS_PER_STEP);
  const row = (each) =>
    html`<${Letter} key=${`${each.partition}-${each.offset}`} row=${each} retry=${retry} />`;
  const older = plural(Math.min(LETTERS_PER_STEP, rows.length - most), "older one");
  const button = html`<${Button} run=${() => setMost(most + LETTERS_PER_STEP)}>${older}<//>`;
  return html`<ul class="letters">${rows.slice(0, most).map(row)}</ul>
    ${rows.length > most && button}`;
}

function Letter({ row, retry }) {
  const [open, setOpen] = useState(false);
  const obstacle = row.retried ? "it was sent again from here" : row.obstacle;
  return html`<li>
    <p class="row"><span class="badge quoted">${row.reason}</span>
      <strong class="quoted">${row.id}</strong>
      <span class="quiet"><${Time} at=${row.kafka_time} />, attempt ${row.attempt},
        ${row.bytes === null ? " no bytes" : ` ${plural(row.bytes, "byte")}`}</span>
      <span class="quoted grows">${row.detail}</span>
      <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${open ? "Hide bytes" : "Show bytes"}</button>
      ${retry && !obstacle && html`<${Button} run=${() => retry(row)}>Send again<//>`}
      ${obstacle && html`<span class="quiet">Not sent again: ${obstacle}</span>`}</p>
    ${open && html`<${Bytes} row=${row} />`}
  </li>`;
}

function Bytes({ row: { partition, offset } }) {
  const [letter, error] = useAnswer("/api/dead-letters/one", { partition, offset });
  if (!letter) return html`<${LoadStatus} error=${error} />`;
  const { text, headers, key } = letter;
  const pairs = headers.map((pair) => pair.map(quoted));
  const bytes = html`<h3>Bytes${letter.cut && ", the first of them"}</h3>
    <pre class="bytes" tabindex="0">${text}</pre>`;
  return html`${text === null ? paragraph("quiet", "It has no bytes.") : bytes}<h3>Headers</h3>
    <${Facts} kind="pairs" rows=${[...pairs, key !== null && ["key", quoted(key)]]} />`;
}

function Retry({ choice, close, setResult }) {
  const { names, reason } = choice;
  const group = reason ? `all letters with the reason ${reason}` : "all letters that can be";
  const run = async () => setResult((await perform("/api/dead-letters/retry", choice)) ?? null);
  return html`<${Confirm} title="Send again?" yes="Send again" run=${run} close=${close}>
    <p>This sends <span class="quoted">${names ? `the letter ${names[0]}` : group}</span> to the
      topic of posts once more. Letters that were sent again before are left out; to find them, the posts
      since the oldest letter are read, which may take a while.</p><//>`;
}

function Result({ result, close }) {
  const unsent = Object.entries(result.unsent);
  const row = ([why, count]) => html`<li>${number(count)}: ${quoted(why)}</li>`;
  const names = html`<details><summary>Which</summary>
    <p class="quoted">${result.names.join(", ")}</p></details>`;
  return html`<div class="card"><p>${plural(result.count, "letter")} sent again.</p>
    ${unsent.length > 0 && html`<p>Not sent again:</p><ul>${unsent.map(row)}</ul>`}
    ${result.names.length > 0 && names}<${Button} run=${close}>Close<//></div>`;
}
