// The events: what is in force, what matched in the last day, and what needs somebody.
import { html, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { eventPage, number, percent, plural, Refused, score, Time, Waiting } from "/lib/ui.js";

const APART_MS = 2000;
const SHOWN = 50;
const STATES = { live: ["in force", "good"], paused: ["paused", ""], expired: ["expired", ""], refused: ["refused", "bad"], none: ["no seed in force", ""] };
const WIDTH = 144, HEIGHT = 36;

export default function Events() {
  const [text, find] = useState("");
  const [skip, turn] = useState(0);
  const [answer, error] = useAnswer("/api/events", { text, skip }, ["events", "seeds", "matches", "health"], APART_MS);
  const last = useRef(), long = useRef(false);
  if (answer) last.current = answer;
  const told = last.current;
  if (!told) return html`<h1>Events</h1>${error ? html`<${Refused} error=${error} />` : html`<${Waiting} />`}`;
  long.current ||= told.total > SHOWN; // what was once too long to look through can still be searched
  return html`<h1>Events</h1>
    <${Refused} error=${error} />
    ${told.away && html`<p class="refused">Not up to date: ${told.away}</p>`}
    ${long.current && html`<p><label>Find an event <input type="search" value=${text} maxlength="100" onInput=${(event) => (turn(0), find(event.target.value))} /></label></p>`}
    ${told.events.length ? html`<ul class="plain">${told.events.map((each) => html`<${Event} key=${each.event} each=${each} model=${told.model} />`)}</ul>` : html`<${Empty} told=${told} text=${text} />`}
    ${(skip > 0 || told.total > skip + SHOWN) && html`<div class="row">
      <button type="button" disabled=${!skip} onClick=${() => turn(skip - SHOWN)}>Before</button>
      <button type="button" disabled=${skip + SHOWN >= told.total} onClick=${() => turn(skip + SHOWN)}>After</button>
      <span class="quiet">${plural(told.total, "event")}</span></div>`}
    <${RefusedSeeds} told=${told} />
    ${told.events.length > 0 && html`<p class="quiet">Matches are counted since <${Time} at=${told.since} />${told.ready ? "" : "; they are still being read"}.</p>`}`;
}

function Empty({ told, text }) {
  if (text) return html`<p class="card">No event has “${text}” in its name.</p>`;
  if (!told.ready) return told.away ? null : html`<${Waiting} what="Reading the topics" />`;
  return html`<div class="card"><h2>No event yet</h2>
    <p>An event begins with an article about it: a seed. Posts that tell of the same are its matches, and they show here as they arrive.</p>
    <p><a href="#/seeds">Add the first seed</a></p></div>`;
}

function Event({ each, model }) {
  const [state, kind] = STATES[each.state];
  const posts = each.posts.reduce((sum, n) => sum + n, 0), stories = each.stories.reduce((sum, n) => sum + n, 0);
  return html`<li class="card event">
    <div class="row"><h2><a href=${eventPage(each.event)}><bdi>${each.event}</bdi></a></h2>
      <span class=${`badge ${kind}`}>${state}</span>
      ${each.profile && html`<span class=${`badge ${each.profile.state === "in force" ? "good" : "bad"}`} title=${each.profile.why}>profile ${each.profile.state}</span>`}
      <${Promise} promise=${each.promise} /></div>
    <div class="row numbers"><${Hours} hours=${each.posts} name=${each.event} />
      <span><strong>${number(each.posts.at(-1))}</strong> this hour</span>
      ${each.hourly && html`<span>about <strong>${each.hourly.rate >= 10 ? number(Math.round(each.hourly.rate)) : each.hourly.rate.toFixed(1)}</strong> an hour ${each.hourly.window}</span>`}
      <span><strong>${number(posts)}</strong> ${posts === 1 ? "match" : "matches"} and <strong>${number(stories)}</strong> ${stories === 1 ? "story" : "stories"} in 24 h</span>
      ${each.last && html`<span class="quiet">last <${Time} at=${each.last} /></span>`}</div>
    <p class="quiet"><${Threshold} each=${each} model=${model} /> · ${Object.entries(each.seeds).map(([name, n]) => `${plural(n, "seed")} ${name}`).join(", ") || "no seed"}</p>
    ${each.profile?.why && html`<p class="quiet">The profile is ${each.profile.state}: ${each.profile.why}</p>`}
    ${each.promise?.lapsed && html`<p class="quiet">The promise holds no longer: ${each.promise.lapsed}</p>`}
    ${each.bursts > 0 && html`<p class="quiet">Far more stories than the hour before in ${plural(each.bursts, "minute")} since the workers began</p>`}
    ${each.drift && html`<p class="quiet">Drift: ${each.drift}</p>`}
  </li>`;
}

function Promise({ promise }) {
  if (!promise) return html`<span class="badge">no promise</span>`;
  const said = `${percent(promise.precision)} on the event, ${percent(promise.confidence)} sure`;
  return html`<span class=${`badge ${promise.lapsed ? "bad" : "good"}`}>promise ${promise.lapsed ? "lapsed" : "holds"}: ${said}</span>`;
}

function Threshold({ each, model }) {
  const cuts = each.thresholds;
  if (!cuts.length) return each.state !== "live" ? "no threshold" : model ? html`<span title=${model}>threshold automatic</span>` : "threshold unknown";
  return cuts.length === 1 ? `threshold ${score(cuts[0])}` : `thresholds ${score(cuts[0])} to ${score(cuts.at(-1))}`;
}

// Matches an hour of the last day; the hour that runs is the last.
function Hours({ hours, name }) {
  const most = Math.max(...hours, 1), step = WIDTH / hours.length;
  const said = `${name}: matches an hour in the last ${hours.length} hours, ${number(Math.max(...hours))} at most, ${number(hours.at(-1))} in this one`;
  return html`<svg class="hours" width=${WIDTH} height=${HEIGHT} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${said}>
    ${hours.map((n, at) => {
      const high = n ? Math.max(2, (n / most) * (HEIGHT - 1)) : 1;
      return html`<rect class=${n ? "" : "none"} x=${at * step} y=${HEIGHT - high} width=${step - 1} height=${high} />`;
    })}</svg>`;
}

function RefusedSeeds({ told }) {
  if (!told.refused.length) return null;
  return html`<h2>Refused seeds</h2><ul class="plain">${told.refused.map((each) => html`<li class="refused"><bdi>${each.id}</bdi>: ${each.reason}</li>`)}</ul>
    <p>${told.more_refused > 0 && `and ${number(told.more_refused)} more; `}<a href="#/seeds">see the seeds</a></p>`;
}
