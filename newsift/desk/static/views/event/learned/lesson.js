// A lesson: that it goes on, what it proposes, and publishing that.
import { html, useEffect, useState } from "/vendor/preact.js";
import { Confirm } from "/lib/confirm.js";
import { doing, number, plural, score } from "/lib/ui.js";
import { cuts, Made, Words } from "/views/event/learned/made.js";

export function Lesson({ told, lesson, session }) {
  if (!lesson.ended) return html`<${GoesOn} lesson=${lesson} />`;
  if (lesson.refused) return html`<p class="refused" role="alert">${lesson.refused}</p>`;
  return html`<${Proposal} told=${told} lesson=${lesson} proposal=${lesson.proposal} session=${session} />`;
}

function GoesOn({ lesson }) {
  const [more, add] = useState(0);
  useEffect(() => {
    add(0);
    const timer = setInterval(() => add((now) => now + 1), 1000);
    return () => clearInterval(timer);
  }, [lesson.seconds]);
  return html`<p role="status">It learns${lesson.hours ? `; ${plural(lesson.hours, "hour")} of posts and as many before are read, then read again to compare` : ""} …</p>
    <p class="quiet" aria-hidden="true">${Math.round(lesson.seconds) + more} s <progress></progress></p>`;
}

const twice = (before, after, digits) => `${before.toFixed(digits)} → ${after.toFixed(digits)}`;

function Proposal({ told, lesson, proposal, session }) {
  const [asking, ask] = useState(false);
  const publish = () => doing("/api/learned/publish", { event: told.event, version: proposal.version }, "the profile is published");
  return html`<section class="card" aria-label="What it would learn">
    <h3>${proposal.is_news ? "What it would learn" : "Nothing new: the profile stays as it is"}</h3>
    ${lesson.told.map((line) => html`<p class="quiet">${line}</p>`)}
    ${lesson.danger && html`<p class="refused">Look before you publish: ${lesson.danger}</p>`}
    <${Words} made=${proposal.made} />
    <${Change} proposal=${proposal} />
    <${Made} made=${proposal.made} />
    ${proposal.is_news && !session.read_only && html`<button type="button" class="main" onClick=${() => ask(true)}>Publish this profile</button>`}
    ${asking && html`<${Confirm} title="Publish this profile?" yes="Publish" run=${publish} close=${() => ask(false)}>
      <p>It takes the place of ${told.has_profile ? "the profile that the event has, which is kept as a version before" : plural(told.number, "seed")}. Scores are others from then on, and so are thresholds${told.automatic === false ? "; the one that was set is gone" : ""}.</p>
      ${lesson.danger && html`<p class="refused">${lesson.danger}</p>`}
    <//>`}
  </section>`;
}

function Change({ proposal }) {
  const { passes, threshold, read, hours, per_1000_of_the_background: everyday } = proposal;
  return html`<dl class="facts">
    <div><dt>Threshold</dt><dd>${cuts(threshold.before)} → ${cuts(threshold.after)}</dd></div>
    <div><dt>Of 1,000 everyday posts</dt><dd>${twice(everyday.before, everyday.after, 1)} pass</dd></div>
    ${read > 0 && html`<div><dt>Of ${number(read)} posts of the stream</dt><dd>${number(passes.before)} → ${number(passes.after)} pass${hours > 1 / 60 ? `; an hour ${twice(passes.before / hours, passes.after / hours, 1)}` : ""}</dd></div>`}
  </dl>
  <${Posts} title="Posts that come" posts=${proposal.come} /><${Posts} title="Posts that go" posts=${proposal.go} />`;
}

function Posts({ title, posts }) {
  if (!posts.length) return null;
  return html`<h4>${title}</h4><ul>${posts.map((post) => html`<li><span class="quiet">${score(post.score)}</span> <span class="said">${post.text}</span></li>`)}</ul>`;
}
