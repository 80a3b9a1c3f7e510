// One story: the post that told it first, and those that say the same.
import { html, useMemo, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Lit, number, Out, plural, Refused, score, Scrolls, Time, Waiting } from "/lib/ui.js";

const LANGUAGE = /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/i; // a screen reader reads it so; anything else is not said

export const keyOf = (post) => `${post.platform}|${post.id}`;

export function Story({ event, post }) {
  const [whole, open] = useState(false);
  const [copies, unfold] = useState(false);
  const same = JSON.stringify([event, post.count, post.marks, post.score, post.why, whole, copies]);
  return useMemo(() => {
    const enter = (key) => {
      if (key.key !== "Enter" || key.target !== key.currentTarget) return;
      key.preventDefault();
      open(!whole);
    };
    const more = post.count - 1;
    return html`<li><article class="card match" data-card tabindex="0" onKeyDown=${enter} aria-label=${`${post.platform} post by ${post.author || "somebody"}`}>
      <${Post} post=${post} />
      <div class="row">
        <button type="button" class="link" aria-expanded=${whole} onClick=${() => open(!whole)}>${whole ? "Less" : post.cut ? "All of the text and the scores" : "The scores"}</button>
        ${more > 0 && html`<button type="button" class="link" aria-expanded=${copies} onClick=${() => unfold(!copies)}>and ${number(more)} more that ${more === 1 ? "says" : "say"} the same</button>`}
      </div>
      ${whole && html`<${Whole} event=${event} post=${post} />`}
      ${copies && html`<${Copies} event=${event} post=${post} />`}
    </article></li>`;
  }, [same]);
}

function Post({ post }) {
  return html`<p class="row about">
      <span class="badge">${post.platform}</span>
      ${post.author && html`<bdi class="author">${post.author}</bdi>`}
      <span class="quiet">${post.created_at ? html`<${Time} at=${post.created_at} />` : html`came <${Time} at=${post.at} />`}${post.lang && ` · ${post.lang}`}</span>
      <span class="grow"></span>
      ${post.marks.map((mark) => html`<span class=${`badge ${mark.label === "on" ? "good" : mark.label === "off" ? "bad" : ""}`}>${mark.label}: <bdi>${mark.by}</bdi></span>`)}
      ${!post.new && html`<span class="quiet">said before</span>`}
      <span title=${`the score; ${score(post.threshold)} has to be reached`}>${score(post.score)}</span>
      ${post.url && html`<${Out} href=${post.url}>open<//>`}
    </p>
    <p class="text" dir="auto" lang=${LANGUAGE.test(post.lang) ? post.lang : undefined}><${Lit} text=${post.text} why=${post.why} /></p>`;
}

// All of a post's text, and how it scored with each of the event's seeds.
function Whole({ event, post }) {
  const [full, error] = useAnswer("/api/match", { event, platform: post.platform, id: post.id });
  if (!full) return error ? html`<${Refused} error=${error} />` : html`<${Waiting} />`;
  return html`${full.cut || post.cut ? html`<p class="text" dir="auto"><${Lit} text=${full.text} why=${full.why} /></p>` : null}
    <${Scrolls} name="Scores"><table>
      <thead><tr><th scope="col">Seed</th><th scope="col" class="number">Score</th><th scope="col" class="number">Threshold</th><th scope="col">Words</th></tr></thead>
      <tbody>${full.seeds.map((seed) => html`<tr key=${seed.id}>
        <td><bdi>${seed.title || seed.id}</bdi>${seed.title && html` <small class="quiet"><bdi>${seed.id}</bdi></small>`}</td>
        <td class="number">${score(seed.score)}</td><td class="number">${score(seed.threshold)}</td>
        <td>${seed.why.map(([word, part]) => html`<bdi>${word}</bdi> ${score(part)} `)}</td>
      </tr>`)}</tbody>
    </table><//>
    <p class="quiet">Came <${Time} at=${full.at} />; post <bdi>${full.id}</bdi>, from ${full.source}; seeds ${full.seed_set}, model ${full.model.slice(0, 12)}${full.events.length > 1 && `; matches ${plural(full.events.length, "event")}: ${full.events.join(", ")}`}</p>`;
}

function Copies({ event, post }) {
  const [posts, error] = useAnswer("/api/story", { event, group: post.group }, ["matches"], 2000);
  if (!posts) return error ? html`<${Refused} error=${error} />` : html`<${Waiting} />`;
  const others = posts.filter((each) => keyOf(each) !== keyOf(post));
  const left = post.count - 1 - others.length;
  return html`<ul class="plain copies">${others.map((each) => html`<li key=${keyOf(each)}><${Post} post=${each} /></li>`)}</ul>
    ${left > 0 && html`<p class="quiet">and ${number(left)} more, which are counted alone</p>`}`;
}
