// Export: an event's matches, labels and figures, as files.
import { html, useState } from "/vendor/preact.js";
import { NO_ANSWER, useAnswer, userName } from "/lib/api.js";
import { Button, fieldInputs, paragraph, notify, plural, LoadStatus, Time } from "/lib/ui.js";

const REFRESH_MS = 10000;
const FORMS = {
  csv: ["CSV", "a table for a spreadsheet, labels as two columns"],
  db: ["SQLite", "posts, seeds, matches and labels as tables, with full text search"],
  jsonl: ["JSON lines", "the workers' own records, labels beside"],
  parquet: ["Parquet", "a table for pandas or R; needs pyarrow where the desk runs"],
};
const FIGURES = { hours: "Matches by the hour", scores: "Scores, beside the background" };
const LAST_MOMENT = "9999-12-31T23:59"; // JavaScript reads no longer year without a sign.
const UNFILTERED = { since: "", until: "", threshold: "" };
const address = (what, question) => `/api/export/${what}?${new URLSearchParams(question)}`;

async function save(what, question) {
  let response;
  try {
    response = await fetch(address(what, question));
  } catch {
    return notify(NO_ANSWER, true);
  }
  if (!response.ok) {
    const refusal = await response.json().catch(() => ({}));
    return notify(refusal.reason ?? `HTTP ${response.status}`, true);
  }
  const encoded = response.headers.get("Content-Disposition")?.split("''")[1];
  const name = decodeURIComponent(encoded ?? "newsift-export");
  let content;
  try {
    content = await response.blob();
  } catch {
    return notify(`${name}: the desk ended before the file was complete`, true);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  notify(`${name} is saved`);
}

export default function Export({ event }) {
  const [filter, setFilter] = useState({});
  const question = { event, ...filter };
  const parts = ["seeds", "labels"];
  const [data, error] = useAnswer("/api/export/summary", question, parts, REFRESH_MS);
  return html`<${Filter} filter=${filter} setFilter=${setFilter} />
    <${LoadStatus} answer=${data} error=${error} what="Counting what the topics hold" />
    ${data && html`<${Counts} data=${data} />`}
    <${Files} question=${question} labels=${data?.labels} />
    <h2>Figures</h2>
    ${data && html`<${Figures} question=${question} data=${data} />`}`;
}

function Counts({ data: { posts, records, labels, first, last } }) {
  const span = html`, from <${Time} at=${first} /> to <${Time} at=${last} />`;
  return html`<p><strong>${plural(posts, "post")}</strong> in ${plural(records, "record")}
    ${posts > 0 && span}; ${plural(labels, "label")}.</p>`;
}

function Filter({ filter, setFilter }) {
  const [fields, setFields] = useState(UNFILTERED);
  const input = fieldInputs(fields, setFields);
  const moment = (value) => value && new Date(value).toISOString();
  const apply = (event) => {
    event.preventDefault();
    const { since, until, threshold } = fields;
    const next = { since: moment(since), until: moment(until), threshold };
    setFilter(Object.fromEntries(Object.entries(next).filter(([, value]) => value)));
  };
  const clear = () => {
    setFields(UNFILTERED);
    setFilter({});
  };
  const all = html`<button type="button" onClick=${clear}>All again</button>`;
  return html`<form class="row" aria-label="Which matches" onSubmit=${apply}>
    <label>From <input type="datetime-local" max=${LAST_MOMENT} ...${input("since")} /></label>
    <label>Until <input type="datetime-local" max=${LAST_MOMENT} ...${input("until")} /></label>
    <label>Score at least <input type="number" min="0" max="1" step="any"
      ...${input("threshold")} /></label>
    <button class="main">Apply</button>${Object.keys(filter).length > 0 && all}</form>`;
}

function Files({ question, labels }) {
  const file = ([form, [name, text]]) => {
    const run = () => save("matches", { ...question, form, by: userName() });
    return html`<li key=${form}><${Button} run=${run}>Save ${name}<//>
      ${" "}<span class="quiet">${text}</span></li>`;
  };
  const none = labels === 0;
  const text = none ? "there are none yet" : "all labels of the event as CSV, without a filter";
  return html`<h2>Matches and labels</h2>
    <ul class="files">${Object.entries(FORMS).map(file)}
      <li><${Button} run=${() => save("labels", { event: question.event })} disabled=${none}>
        Save labels<//> <span class="quiet">${text}</span></li>
    </ul>
    <p class="quiet">The same columns as <code>newsift matches --out</code>; no cell is a formula
      to a spreadsheet.</p>`;
}

function Figures({ question, data }) {
  const figure = ([which, name]) => {
    const src = address("figure", { ...question, which, of: `${data.posts} ${data.model}` });
    const run = () => save("figure", { ...question, which });
    return html`<figure key=${which}><img src=${src} alt=${name} width="720" height="360" />
      <figcaption class="row"><span>${name}</span><${Button} run=${run}>Save SVG<//></figcaption>
    </figure>`;
  };
  const problem = data.model && `The second one lacks the background: ${data.model}.`;
  return html`${paragraph("quiet", problem)}
    <div class="figures">${Object.entries(FIGURES).map(figure)}</div>`;
}
