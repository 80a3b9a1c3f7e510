// Health: what stands in the way of matches and what to do, then each part by itself.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { number, plural, Refused, Scrolls, Time, Waiting } from "/lib/ui.js";
import { LagLine } from "/views/health/line.js";
import { Letters } from "/views/health/letters.js";

const APART_MS = 2000;

export default function Health({ session }) {
  const [told, error] = useAnswer("/api/health", {}, ["health"], APART_MS);
  return html`<h1>Health</h1>
    <${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} what="Looking" />`}
    ${told && html`<${Alerts} told=${told} />
      <div class="cards">
        <${Broker} told=${told} />
        <${Lag} told=${told} />
      </div>
      <${Members} told=${told} />
      <${Workers} told=${told} />
      <${Collectors} part=${told.collectors} />
      <${Topics} part=${told.topics} />
      <${Followed} rows=${told.followed} />`}
    <${Letters} session=${session} />`;
}

// What one would want to know of; quiet where all is well.
function Alerts({ told }) {
  const waits = !told.broker.since;
  if (!told.alerts.length) return html`<p class="card" role="status">${waits ? "Looking …" : "All well: nothing has to be done."}</p>`;
  return html`<ul class="alerts" aria-label="What to do">
    ${told.alerts.map((each) => html`<li class=${each.serious ? "serious" : ""}><strong>${each.serious ? "To mend: " : "To know: "}</strong><span class="said">${each.says}</span></li>`)}
  </ul>`;
}

// Of a part that is away: why and since when.
function Looked({ part, what }) {
  if (part.away && part.since) return html`<p class="refused">${what} away since <${Time} at=${part.since} />: <span class="said">${part.away}</span></p>`;
  return null;
}

function Broker({ told }) {
  const { broker } = told;
  const rates = broker.rates;
  return html`<section class="card" aria-labelledby="broker"><h2 id="broker">Broker</h2>
    <p class="said">${told.kafka}</p>
    ${broker.away && broker.since ? html`<${Looked} part=${broker} what="The broker is" />` : broker.since && html`<p>There since <${Time} at=${broker.since} />.</p>`}
    ${rates && html`<dl class="pairs">
      <dt>Posts come in</dt><dd>${number(rates.posts_in)} a second</dd>
      <dt>Posts are done</dt><dd>${number(rates.posts_done)} a second</dd>
      <dt>Matches go out</dt><dd>${number(rates.matches)} a second</dd>
    </dl>`}
  </section>`;
}

function Lag({ told }) {
  const { broker } = told;
  return html`<section class="card" aria-labelledby="lag"><h2 id="lag">Posts that wait</h2>
    <p class="big">${broker.lag === undefined ? "–" : number(broker.lag)}</p>
    <${LagLine} line=${told.line} />
    ${broker.partitions && html`<details><summary>By partition</summary><${Scrolls} name="Waiting by partition"><table>
      <thead><tr><th class="number">Partition</th><th class="number">Waiting</th><th class="number">Done up to</th><th class="number">End</th><th>Worker</th></tr></thead>
      <tbody>${broker.partitions.map((row) => html`<tr key=${row.partition}><td class="number">${row.partition}</td><td class="number">${number(row.lag)}</td><td class="number">${number(row.committed)}</td><td class="number">${number(row.end)}</td><td class="said">${row.worker ?? "nobody"}</td></tr>`)}</tbody>
    </table><//>${broker.all_partitions > broker.partitions.length && html`<p class="quiet">${number(broker.all_partitions - broker.partitions.length)} more wait for less.</p>`}</details>`}
  </section>`;
}

function Members({ told }) {
  const { members = [], all_members = 0, state } = told.broker;
  if (!told.broker.partitions) return null;
  return html`<section aria-labelledby="members"><h2 id="members">Workers in the group</h2>
    <p>${plural(all_members, "worker")} in <span class="said">${told.group}</span> (${state}).</p>
    ${members.length > 0 && html`<${Scrolls} name="Partitions of each worker"><table>
      <thead><tr><th>Worker</th><th>Host</th><th>Partitions</th><th class="number">Waiting</th></tr></thead>
      <tbody>${members.map((row) => html`<tr key=${row.id}><td class="said">${row.id}</td><td class="said">${row.host}</td><td>${row.partitions.join(", ") || "none"}</td><td class="number">${number(row.lag)}</td></tr>`)}</tbody>
    </table><//>`}
  </section>`;
}

function Workers({ told }) {
  const { rows } = told.workers;
  return html`<section aria-labelledby="workers"><h2 id="workers">What workers say of themselves</h2>
    <${Looked} part=${told.workers} what="They are" />
    ${rows.map((row) => html`<div class="card" key=${row.address}>
      <p class="row"><strong class="said">${row.address}</strong>
        ${row.away ? html`<span class="badge bad">away</span>` : html`<span class=${`badge ${row.ready ? "good" : "bad"}`}>${row.ready ? "ready" : "not ready"}</span>`}</p>
      ${row.away && html`<p class="quiet said">${row.away}</p>`}
      ${row.reason && html`<p class="said">${row.reason}</p>`}
      ${!row.away && html`<dl class="pairs">
        <dt>Version</dt><dd class="said">${row.version ?? "not told"}</dd>
        <dt>Model</dt><dd class="said">${row.model ? row.model.slice(0, 12) : "not told"}</dd>
        <dt>Set of seeds</dt><dd class="said">${row.seed_set ?? "not told"}</dd>
        <dt>Drift</dt><dd class="said">${row.drift ?? "not told"}</dd>
      </dl>`}
    </div>`)}
  </section>`;
}

function Collectors({ part }) {
  return html`<section aria-labelledby="collectors"><h2 id="collectors">Collectors of this host</h2>
    <${Looked} part=${part} what="Their state files are" />
    ${part.rows.length === 0 && part.since && html`<p class="quiet">None has run here; <code>newsift collect</code> brings posts from a platform.</p>`}
    ${part.rows.length > 0 && html`<${Scrolls} name="Sources"><table>
      <thead><tr><th>Source</th><th>State</th><th>Last post</th><th>Acknowledged</th><th class="number">Gaps</th></tr></thead>
      <tbody>${part.rows.map((row) => html`<tr key=${row.state}><td class="said">${row.source}</td>
        <td><span class=${`badge ${row.running ? "good" : ""}`}>${row.running ? "running" : "does not run"}</span></td>
        <td><${Time} at=${row.last_post_at} /></td><td><${Time} at=${row.saved_at} /></td>
        <td class="number">${number(row.gaps)}${row.gaps > 0 && html` (${number(Math.round(row.gap_seconds))} s known)`}</td></tr>`)}</tbody>
    </table><//>`}
  </section>`;
}

function Topics({ part }) {
  return html`<section aria-labelledby="topics"><h2 id="topics">Topics</h2>
    <${Looked} part=${part} what="Their settings are" />
    ${!part.away && part.rows.length === 0 && html`<p class="quiet">All topics are as they should be.</p>`}
    ${!part.away && part.rows.map((row) => html`<div class="card" key=${row.topic + row.setting}>
      <p><span class=${`badge ${row.serious ? "bad" : ""}`}>${row.serious ? "must" : "should"}</span> <strong class="said">${row.topic}</strong>: ${row.setting} is <span class="said">${row.found}</span>, wanted <span class="said">${row.wanted}</span></p>
      <p class="quiet said">${row.why}</p><p><code class="said">${row.fix}</code></p></div>`)}
  </section>`;
}

function Followed({ rows }) {
  const away = rows.filter((row) => row.away);
  return html`<section aria-labelledby="followed"><h2 id="followed">What this desk follows</h2>
    ${away.length === 0 ? html`<p class="quiet">All of it: ${rows.map((row) => row.name).join(", ")}.</p>` : html`<ul>${away.map((row) => html`<li key=${row.name}><strong class="said">${row.name}</strong>: <span class="said">${row.away}</span></li>`)}</ul>`}
  </section>`;
}
