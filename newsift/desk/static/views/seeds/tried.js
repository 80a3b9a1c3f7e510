// What the events of new articles would have matched in the last hours, before anything is published.
import { html, useEffect, useState } from "/vendor/preact.js";
import { act } from "/lib/api.js";
import { Refused, Waiting, number, plural, score } from "/lib/ui.js";
import { Advice, asked } from "/views/seeds/parts.js";

export function Tried({ drafts, told }) {
  const [answer, set] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    let gone = false;
    set(null);
    fail(null);
    act("/api/seeds/try", { drafts: asked(drafts) }).then((said) => gone || set(said.answer), (why) => gone || fail(why));
    return () => (gone = true);
  }, [told]);
  return html`<section class="card" aria-label="What it would have matched"><h2>What it would have matched</h2>
    <${Refused} error=${error} />
    ${!answer ? !error && html`<${Waiting} what="Trying it on the posts of the last hours" />`
    : html`${Object.entries(answer.seen).map(([event, seen]) => html`<${Seen} event=${event} seen=${seen} others=${answer.events.find((each) => each.event === event)?.others} />`)}
      <${Advice} events=${answer.events} />`}</section>`;
}

function Seen({ event, seen, others }) {
  if (!seen.posts) return html`<p>There is no post of the last ${seen.hours} hours to try <span class="said">${event}</span> on.</p>`;
  const among = seen.whole ? plural(seen.posts, "post") : `a sample of ${number(seen.posts)} of ${plural(seen.there, "post")}`;
  return html`<p><strong class="said">${event}</strong>: ${seen.matched ? number(seen.matched) : "none"} of ${among} of the last ${seen.hours} hours would have matched${others > 0 && `, ${seen.gained ? number(seen.gained) : "none"} only by what is added`}.</p>
    <ol class="plain">${seen.best.map((post) => html`<li class="row post"><span class="badge">${score(post.score)}</span> <span class="said">${post.text.slice(0, 500)}</span></li>`)}</ol>`;
}
