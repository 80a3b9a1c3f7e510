// What an event has learned, what it would learn now, and the way back.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Confirm } from "/lib/confirm.js";
import { Do, doing, eventPage, plural, Refused, Time, Waiting } from "/lib/ui.js";
import { cuts, Made, Words } from "/views/event/learned/made.js";
import { Lesson } from "/views/event/learned/lesson.js";

const APART_MS = 1000;

export default function Learned({ event, session }) {
  const [told, error] = useAnswer("/api/learned", { event }, ["events", "seeds"], APART_MS);
  return html`<${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} />`}
    ${told?.away && html`<p class="refused" role="status">${told.away}</p>`}
    ${told?.event && html`<${Now} told=${told} /><${Anew} told=${told} session=${session} /><${Back} told=${told} session=${session} />`}`;
}

function Now({ told }) {
  const seeds = `${plural(told.number, "seed")}${told.number ? ` (${told.seeds.join(", ")}${told.number > told.seeds.length ? ", …" : ""})` : ""}`;
  if (!told.has_profile) return html`<h2>Nothing learned yet</h2><p>Posts are compared with ${seeds}.</p>`;
  return html`<h2>What it has learned</h2>
    ${told.why ? html`<p class="refused">The profile is ${told.profile}: ${told.why}. Its seeds serve: ${seeds}.</p>` : html`<p>A profile is in force in the place of ${seeds}; threshold ${cuts(told.thresholds)}${told.automatic ? ", automatic" : ", set"}.</p>`}
    <${Words} made=${told.made} />
    <${Made} made=${told.made} />`;
}

const SPANS = [[1, "the last hour"], [6, "the last 6 hours"], [24, "the last 24 hours"], [0, "no posts: its seeds and everyday posts alone"]];

function Anew({ told, session }) {
  const [hours, span] = useState(24);
  const [labels, judged] = useState(true);
  if (told.promised) return html`<h2>Learn now</h2><p>Its threshold has a promise, which other vectors would break. Renew the promise on the page <a href=${eventPage(told.event, "judge")}>Judge</a>, or give it up by going back below.</p>`;
  if (!told.number) return html`<h2>Learn now</h2><p>It has no seed that matches; <a href="#/seeds">add one</a> or resume it.</p>`;
  const begin = () => doing("/api/learned/learn", { event: told.event, hours, labels });
  return html`<h2>Learn now</h2>
    ${!session.read_only && html`<fieldset><legend>From its seeds, and of the stream</legend>
      ${SPANS.map(([value, said]) => html`<label class="choice"><input type="radio" name="span" checked=${hours === value} onChange=${() => span(value)} /> ${said}</label>`)}
      <label class="choice"><input type="checkbox" checked=${labels} onChange=${(event) => judged(event.target.checked)} /> and from what people said of posts</label>
      <p class="row"><${Do} run=${begin} disabled=${!!told.busy}>See what it would learn<//> <span class="quiet">Nothing is published before you have seen it.</span></p>
      ${told.busy && told.busy !== told.event && html`<p class="quiet"><bdi>${told.busy}</bdi> learns now; one at a time.</p>`}
    </fieldset>`}
    ${told.lesson && html`<${Lesson} told=${told} lesson=${told.lesson} session=${session} />`}`;
}

function Back({ told, session }) {
  const [asking, ask] = useState(false);
  if (!told.has_profile) return null;
  const where = told.back_to ? "the version before" : "no profile: its seeds serve";
  const go = () => doing("/api/learned/forget", { event: told.event, version: told.version ?? "" }, `back to ${where}`);
  return html`<h2>Versions before</h2>
    ${told.before.length ? html`<ol>${told.before.map((made) => html`<li>${made.at ? html`<${Time} at=${made.at} />` : "at no known time"}${made.by && html` by <bdi>${made.by}</bdi>`}${made.method && html`, of ${made.method}`}${made.labels > 0 && html`, ${plural(made.labels, "label")}`}</li>`)}</ol>` : html`<p class="quiet">None: before this profile its seeds served.</p>`}
    ${!session.read_only && html`<p><button type="button" class="bad" onClick=${() => ask(true)}>Go back to ${where}</button></p>`}
    ${asking && html`<${Confirm} title="Go back?" yes="Go back" run=${go} close=${() => ask(false)}>
      <p>${told.back_to ? "The version before takes the place of this profile." : "The profile is deleted, and posts are compared with the seeds again."} This version is not kept. All workers follow within a second.</p>
      ${told.promised && html`<p class="refused">The promise of its threshold is given up with it.</p>`}
    <//>`}`;
}
