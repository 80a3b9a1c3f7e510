// Export: an event's matches, labels, figures, as files to take away.
import { html, useState } from "/vendor/preact.js";
import { useAnswer, whoami } from "/lib/api.js";
import { Do, number, plural, Refused, tell, Time, Waiting } from "/lib/ui.js";

const APART_MS = 10000;
const FORMS = {
  csv: ["CSV", "a table for a spreadsheet, labels as two columns"],
  db: ["SQLite", "posts, seeds, matches and labels as tables, with full text search"],
  jsonl: ["JSON lines", "the workers' own records, labels beside"],
  parquet: ["Parquet", "a table for pandas or R; needs pyarrow where the desk runs"],
};
const FIGURES = { hours: "Matches by the hour", scores: "Scores, beside the background" };

const address = (what, question) => `/api/export/${what}?${new URLSearchParams(question)}`;

// Save what the desk answers as a file, and say so; a refusal is told in its own words.
async function save(what, question) {
  let response;
  try {
    response = await fetch(address(what, question));
  } catch {
    return tell("the desk does not answer; is `newsift desk` still running?", true);
  }
  if (!response.ok) return tell((await response.json().catch(() => ({}))).reason ?? `HTTP ${response.status}`, true);
  const name = decodeURIComponent(response.headers.get("Content-Disposition")?.split("''")[1] ?? "newsift-export");
  let content;
  try {
    content = await response.blob();
  } catch {
    return tell(`${name}: the desk ended before all of it was here`, true);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  tell(`${name} is saved`);
}

export default function Export({ event }) {
  const [chosen, choose] = useState({});
  const question = { event, ...chosen };
  const [told, error] = useAnswer("/api/export/summary", question, ["seeds", "labels"], APART_MS);
  return html`<${Filter} chosen=${chosen} choose=${choose} />
    <${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} what="Counting what the topics hold" />`}
    ${told && html`<p><strong>${plural(told.posts, "post")}</strong> in ${plural(told.records, "record")}${told.posts > 0 && html`, from <${Time} at=${told.first} /> to <${Time} at=${told.last} />`}; ${plural(told.labels, "label")}.</p>`}
    <${Matches} question=${question} labels=${told?.labels} />
    <${Figures} question=${question} told=${told} />`;
}

const moment = (value) => (value ? new Date(value).toISOString() : "");

function Filter({ chosen, choose }) {
  const [at, set] = useState({ since: "", until: "", threshold: "" });
  const typed = (name) => (event) => set({ ...at, [name]: event.target.value });
  const apply = () => {
    const found = { since: moment(at.since), until: moment(at.until), threshold: at.threshold };
    choose(Object.fromEntries(Object.entries(found).filter(([, value]) => value)));
  };
  return html`<form class="row" aria-label="Which matches" onSubmit=${(event) => (event.preventDefault(), apply())}>
    <label>From <input type="datetime-local" value=${at.since} onInput=${typed("since")} /></label>
    <label>Until <input type="datetime-local" value=${at.until} onInput=${typed("until")} /></label>
    <label>Score at least <input type="number" min="0" max="1" step="any" value=${at.threshold} onInput=${typed("threshold")} /></label>
    <button class="main">Apply</button>
    ${Object.keys(chosen).length > 0 && html`<button type="button" onClick=${() => (set({ since: "", until: "", threshold: "" }), choose({}))}>All again</button>`}
  </form>`;
}

function Matches({ question, labels }) {
  return html`<h2>Matches and labels</h2>
    <ul class="files">${Object.entries(FORMS).map(([form, [name, says]]) => html`<li key=${form}><${Do} run=${() => save("matches", { ...question, form, by: whoami() })}>Save ${name}<//> <span class="quiet">${says}</span></li>`)}
      <li><${Do} run=${() => save("labels", { event: question.event })} disabled=${labels === 0}>Save labels<//> <span class="quiet">${labels === 0 ? "there are none yet" : "all labels of the event as CSV, whatever is chosen above"}</span></li>
    </ul>
    <p class="quiet">The same columns as <code>newsift matches --out</code>; no cell is a formula to a spreadsheet.</p>`;
}

function Figures({ question, told }) {
  return html`<h2>Figures</h2>
    ${told?.model && html`<p class="quiet">The second one lacks the background: ${told.model}.</p>`}
    <div class="figures">${told && Object.entries(FIGURES).map(([which, name]) => html`<figure key=${which}>
      <img src=${address("figure", { ...question, which, of: `${told.posts} ${told.model}` })} alt=${name} width="720" height="360" />
      <figcaption class="row"><span>${name}</span><${Do} run=${() => save("figure", { ...question, which })}>Save SVG<//></figcaption></figure>`)}</div>`;
}
