// What scores just below the line: the newest near misses that the workers keep.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Lit, number, Out, Refused, score, Time, Waiting } from "/lib/ui.js";

const APART_MS = 10000;

export function Near({ event }) {
  const [told, error] = useAnswer("/api/scores/near", { event }, ["matches", "seeds"], APART_MS);
  return html`<h2>Just below the line</h2>
    <${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} />`}
    ${told?.near && html`<${List} told=${told} />`}`;
}

function List({ told }) {
  if (!told.near.length) return html`<p class="quiet">No near misses are kept${told.told.length ? html`: ${told.told.join("; ")}` : ""}.</p>`;
  return html`<p class="quiet">${number(told.count)} posts came near and did not match; of the ones that the workers keep, drawn at random, the newest:</p>
    <ul class="plain">${told.near.map((near) => html`<li class="card" key=${`${near.platform} ${near.id}`}>
      <p><${Lit} text=${near.text} why=${near.why} /></p>
      <p class="quiet row"><span>${score(near.score)}</span> <span>${near.platform}</span> ${near.author && html`<bdi>${near.author}</bdi>`}
        ${near.created_at && html`<${Time} at=${near.created_at} />`} ${near.url && html`<${Out} href=${near.url}>open<//>`} ${near.said && html`<span class="badge">labelled ${near.said}</span>`}</p>
    </li>`)}</ul>`;
}
