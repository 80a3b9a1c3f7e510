// Who judged: counts by person, how far each two agree, and the posts on which they do not.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Do, eventPage, number, Out, plural, Refused, Scrolls } from "/lib/ui.js";

const COUNTS = ["on", "off", "unsure", "certify", "learn", "given"];
const HEADS = { certify: "at random", learn: "to learn", given: "imported" };

function Counts({ rows, people }) {
  return html`<${Scrolls} name="Labels by person"><table><caption>Labels by person</caption>
    <thead><tr><th>Person</th>${COUNTS.map((name) => html`<th class="number">${HEADS[name] ?? name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.by}><td><bdi>${row.by}</bdi></td>${COUNTS.map((name) => html`<td class="number">${number(row[name])}</td>`)}</tr>`)}</tbody>
  </table><//>${people > rows.length && html`<p class="quiet">and ${number(people - rows.length)} more</p>`}`;
}

function Pairs({ rows }) {
  if (!rows.length) return html`<p class="quiet">No two people have judged the same post yet. Two who judge the same fifty show what the labels are worth.</p>`;
  return html`<${Scrolls} name="How far two agree"><table><caption>How far two agree: κ is 1 where always, 0 where by chance alone</caption>
    <thead><tr><th>One</th><th>Other</th><th class="number">Posts</th><th class="number">Same</th><th class="number">κ</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${JSON.stringify([row.one, row.other])}><td><bdi>${row.one}</bdi></td><td><bdi>${row.other}</bdi></td>
      <td class="number">${number(row.posts)}</td><td class="number">${row.same.toFixed(2)}</td><td class="number">${row.kappa === null ? "–" : row.kappa.toFixed(2)}</td></tr>`)}</tbody>
  </table><//>`;
}

function Apart({ post, by, judgeAgain }) {
  const yours = post.said.find((each) => each.by === by)?.label;
  return html`<li class="card">
    <p class="row">${post.said.map((each) => html`<span class="badge"><bdi>${each.by}</bdi>: ${each.label}</span>`)}</p>
    <p class="said">${post.text}</p>
    <p class="row">${post.url && html`<${Out} href=${post.url}>Open the post<//>`}
      ${yours && judgeAgain && html`<${Do} run=${() => judgeAgain({ ...post, yours })}>Judge again<//>`}</p>
  </li>`;
}

export function Judges({ event, by, judgeAgain }) {
  const [found, refused] = useAnswer("/api/judge/judges", { event }, ["labels"]);
  return html`<section><h2>Who judged</h2><${Refused} error=${refused} />
    ${found && !found.counts.length && html`<p class="quiet">No label yet. The first answer makes the topic of labels, if there is none.</p>`}
    ${found?.counts.length ? html`<${Counts} rows=${found.counts} people=${found.people} /><${Pairs} rows=${found.pairs} />
      ${found.away && html`<p class="refused">These may be old: ${found.away}</p>`}
      ${found.apart.length ? html`<h3>${plural(found.apart_in_all, "post")} on which they differ</h3>
        <ul class="apart">${found.apart.map((post) => html`<${Apart} key=${`${post.platform} ${post.id}`} post=${post} by=${by} judgeAgain=${judgeAgain} />`)}</ul>` : null}` : null}
    <p><a href=${eventPage(event, "export")}>Take labels along, or bring some</a></p>
  </section>`;
}
