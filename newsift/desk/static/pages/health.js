// Health: problems with their remedies, then the broker, workers, collectors and topics.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Facts, paragraph, number, plural, quoted, LoadStatus, Table, Time } from "/lib/ui.js";
import { DeadLetters } from "/pages/letters.js";

const REFRESH_MS = 2000;

export default function Health({ session }) {
  const [data, error] = useAnswer("/api/health", {}, ["health"], REFRESH_MS);
  const parts = html`<${Problems} data=${data} />
    <div class="cards"><${Broker} data=${data} /><${Lag} data=${data} /></div>
    <${Members} data=${data} />
    <${Workers} data=${data?.workers} />
    <${Collectors} data=${data?.collectors} />
    <${Topics} data=${data?.topics} />
    <${Sources} rows=${data?.sources} />`;
  return html`<h1>Health</h1>
    <${LoadStatus} answer=${data} error=${error} what="Looking" />
    ${data && parts}
    <${DeadLetters} session=${session} />`;
}

function Problems({ data }) {
  if (!data.problems.length) {
    const text = data.broker.since ? "All well: nothing has to be done." : "Looking …";
    return paragraph("card", text, "status");
  }
  const row = (problem) => html`<li>${quoted(problem)}</li>`;
  return html`<ul class="problems" aria-label="What to do">${data.problems.map(row)}</ul>`;
}

const Unreadable = ({ data }) =>
  data.error &&
  data.since &&
  html`<p class="refused">Not readable since <${Time} at=${data.since} />: ${quoted(data.error)}
    </p>`;

function Broker({ data: { broker, kafka } }) {
  const { error, since, rates } = broker;
  const pairs = rates && [
    ["Posts come in", `${number(rates.posts_in)} a second`],
    ["Posts are done", `${number(rates.posts_done)} a second`],
    ["Matches go out", `${number(rates.matches)} a second`],
  ];
  return html`<section class="card" aria-labelledby="broker"><h2 id="broker">Broker</h2>
    <p class="quoted">${kafka}</p>
    <${Unreadable} data=${broker} />
    ${!error && since && html`<p>Connected since <${Time} at=${since} />.</p>`}
    ${pairs && html`<${Facts} kind="pairs" rows=${pairs} />`}
  </section>`;
}

function Lag({ data: { broker } }) {
  const { partitions, all_partitions: all } = broker;
  const rows = partitions?.map((row) => [
    row.partition,
    number(row.lag),
    number(row.committed),
    number(row.end),
    quoted(row.worker ?? "nobody"),
  ]);
  const heads = ["#Partition", "#Waiting", "#Done up to", "#End", "Worker"];
  const more = all - rows?.length;
  const details = html`<details><summary>By partition</summary>
    <${Table} name="Waiting by partition" heads=${heads} rows=${rows} />
    ${paragraph("quiet", more > 0 && `${number(more)} more wait for less.`)}</details>`;
  return html`<section class="card" aria-labelledby="lag"><h2 id="lag">Posts that wait</h2>
    <p class="big">${number(broker.lag)}</p>${rows && details}</section>`;
}

function Members({ data: { broker, group } }) {
  if (!broker.partitions) return null;
  const rows = broker.members.map((row) => [
    quoted(row.id),
    quoted(row.host),
    row.partitions.join(", ") || "none",
    number(row.lag),
  ]);
  const heads = ["Worker", "Host", "Partitions", "#Waiting"];
  const table = html`<${Table} name="Partitions of each worker" rows=${rows} heads=${heads} />`;
  return html`<section aria-labelledby="members"><h2 id="members">Workers in the group</h2>
    <p>${plural(broker.all_members, "worker")} in ${quoted(group)} (${broker.state}).</p>
    ${rows.length > 0 && table}</section>`;
}

function Workers({ data }) {
  const isSilent = data.since && data.rows.every((row) => row.error);
  const silence = html`No worker's web server answers: near misses and readiness are unknown.
    ${" "}<code>desk.workers</code> names workers on other machines.`;
  return html`<section aria-labelledby="workers"><h2 id="workers">What workers report</h2>
    <${Unreadable} data=${data} />
    ${paragraph("quiet", isSilent && silence)}
    ${data.rows.map((row) => html`<${Worker} key=${row.address} row=${row} />`)}</section>`;
}

function Worker({ row }) {
  const state = row.error ? "does not answer" : row.ready ? "ready" : "not ready";
  const pairs = [
    ["Version", row.version],
    ["Model", row.model?.slice(0, 12)],
    ["Set of seeds", row.seed_set],
  ].map(([name, value]) => [name, quoted(value ?? "unknown")]);
  return html`<div class="card">
    <p class="row"><strong class="quoted">${row.address}</strong>
      <span class=${`badge ${row.ready ? "good" : "bad"}`}>${state}</span></p>
    ${paragraph("quiet quoted", row.error)}${paragraph("quoted", row.reason)}
    ${!row.error && html`<${Facts} kind="pairs" rows=${pairs} />`}
  </div>`;
}

function Collectors({ data }) {
  const rows = data.rows.map((row) => [
    quoted(row.source),
    html`<span class=${`badge ${row.running ? "good" : ""}`}>
      ${row.running ? "running" : "does not run"}</span>`,
    html`<${Time} at=${row.last_post_at} />`,
    html`<${Time} at=${row.saved_at} />`,
    `${number(row.gaps)}${row.gaps > 0 ? ` (${number(Math.round(row.gap_seconds))} s known)` : ""}`,
  ]);
  const heads = ["Source", "State", "Last post", "Acknowledged", "#Gaps"];
  const none = html`None has run here; <code>newsift collect</code> brings posts from a platform.`;
  return html`<section aria-labelledby="collectors">
    <h2 id="collectors">Collectors of this host</h2>
    <${Unreadable} data=${data} />
    ${paragraph("quiet", !rows.length && data.since && none)}
    ${rows.length > 0 && html`<${Table} name="Sources" rows=${rows} heads=${heads} />`}</section>`;
}

const must = html`<span class="badge bad">must</span>`;
const should = html`<span class="badge">should</span>`;

function Topics({ data }) {
  const row = (each) =>
    html`<div class="card" key=${each.topic + each.setting}>
      <p>${each.serious ? must : should} <strong class="quoted">${each.topic}</strong>: ${each.setting} is
        ${" "}${quoted(each.actual)}, required ${quoted(each.required)}</p>
      <p class="quiet quoted">${each.why}</p><p><code class="quoted">${each.fix}</code></p></div>`;
  return html`<section aria-labelledby="topics"><h2 id="topics">Topics</h2>
    <${Unreadable} data=${data} />
    ${paragraph("quiet", !data.error && !data.rows.length && "All topics are as they should be.")}
    ${!data.error && data.rows.map(row)}</section>`;
}

function Sources({ rows }) {
  const unreadable = rows.filter((row) => row.error);
  const row = ({ name, error }) =>
    html`<li key=${name}><strong class="quoted">${name}</strong>: ${quoted(error)}</li>`;
  const all = paragraph("quiet", `All of it: ${rows.map(({ name }) => name).join(", ")}.`);
  return html`<section aria-labelledby="sources"><h2 id="sources">What this desk reads</h2>
    ${unreadable.length ? html`<ul>${unreadable.map(row)}</ul>` : all}
  </section>`;
}
