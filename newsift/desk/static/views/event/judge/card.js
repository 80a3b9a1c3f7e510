// A post to judge: its full text, why it matched, where it is from, and the answers.
import { html } from "/vendor/preact.js";
import { Lit, Out, score, Time } from "/lib/ui.js";

// The second click of a double one would answer a post that nobody has read.
const ANSWERS = [["y", "on", "On the event"], ["n", "off", "Off"], ["u", "unsure", "Unsure"]];

function Why({ why }) {
  if (!why?.length) return null;
  return html`<table class="why"><caption>Why it matched</caption>
    <thead><tr><th>Word</th><th class="number">Part</th></tr></thead>
    <tbody>${why.map(([word, part]) => html`<tr><td><bdi>${word || "the rest"}</bdi></td><td class="number">${score(part)}</td></tr>`)}</tbody>
  </table>`;
}

export function Card({ post, says }) {
  const near = post.threshold === null || post.threshold === undefined;
  return html`<article class="card post">
    <p class="row quiet from"><span class="badge">${post.platform}</span>${post.author && html`<bdi>${post.author}</bdi>`}
      <${Time} at=${post.created_at} />${post.url && html`<${Out} href=${post.url}>Open the post<//>`}</p>
    <p class="words" tabindex="0" aria-live="polite" aria-atomic="true"><${Lit} text=${post.text} why=${post.why} /></p>
    <p>Score <b>${score(post.score)}</b> ${near ? html`<span class="quiet">a near miss, below the threshold</span>` : html`<span class="quiet">threshold ${score(post.threshold)}</span>`}</p>
    <div class="answers" role="group" aria-label="Is it on the event?">
      ${ANSWERS.map(([key, verdict, name]) => html`<button type="button" key=${verdict} class=${verdict} aria-keyshortcuts=${key} onClick=${(event) => event.detail < 2 && says(verdict)}>${name} <kbd>${key}</kbd></button>`)}
    </div>
    <${Why} why=${post.why} />
  </article>`;
}
