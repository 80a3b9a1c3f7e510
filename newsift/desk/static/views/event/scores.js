// An event's scores: where they lie, and what another threshold would do; a look, never a promise.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Confirm } from "/lib/confirm.js";
import { doing, eventPage, number, percent, plural, Refused, score, Scrolls, Waiting } from "/lib/ui.js";
import { Figure, Legend } from "/views/event/scores/figure.js";
import { Near } from "/views/event/scores/near.js";
import { everydayWords, hourlyWords, labelWords, reading, recallWords, shareWords, STEP, within } from "/views/event/scores/reading.js";

const APART_MS = 3000;

const cuts = ([low, high]) => (high > low ? `${score(low)} to ${score(high)}` : score(low));
const span = (hours) => (hours < 1.5 ? plural(Math.max(1, Math.round(60 * hours)), "minute") : plural(Math.round(hours), "hour"));
const promised = ({ precision, confidence }) => `${percent(precision)} of the matches on the event, at ${percent(confidence)} confidence`;

export default function Scores({ event, session }) {
  const [told, error] = useAnswer("/api/scores", { event }, ["matches", "labels", "seeds", "events"], APART_MS);
  return html`<${Refused} error=${error} />
    ${!told && !error && html`<${Waiting} />`}
    ${told?.away && html`<p class="refused" role="status">${told.away}</p>`}
    ${told?.edges && (told.number ? html`<${Look} told=${told} event=${event} session=${session} />` : html`<${Nothing} told=${told} />`)}
    <${Near} event=${event} />`;
}

const Nothing = ({ told }) => html`<p>No post is compared with this event: it has no seed that matches.${told.why && html` Its profile is ${told.state}: ${told.why}.`} <a href="#/seeds">Seeds</a></p>`;

function Look({ told, event, session }) {
  const [moved, move] = useState(null);
  const now = told.thresholds[0];
  const at = moved ?? within(now);
  const found = reading(told, at);
  return html`
    ${told.told.map((line) => html`<p class="refused">${line}</p>`)}
    ${told.why && html`<p class="refused">The profile is ${told.state}, its seeds serve: ${told.why}</p>`}
    <h2>Where the scores lie</h2>
    <p class="quiet">${number(told.matched)} matches of the last ${span(told.hours)},
      by ${told.state === "in force" ? "the profile" : plural(told.number, "seed")}. The threshold is ${cuts(told.thresholds)}${told.is_automatic ? ", automatic" : ", set"}.</p>
    <${Figure} told=${told} at=${at} move=${move} />
    <${Legend} />
    <${Facts} told=${told} found=${found} />
    <${Set} told=${told} event=${event} at=${at} found=${found} move=${move} session=${session} moved=${moved !== null} />
    <${Table} told=${told} />`;
}

function Facts({ told, found }) {
  return html`<dl class="facts">
    <div><dt>From ${found.score.toFixed(3)} on, an hour</dt><dd>${hourlyWords(told, found)}${found.hourly === null ? "" : html` <span class="quiet">(${told.window})</span>`}</dd></div>
    <div><dt>Of 1,000 everyday posts</dt><dd>${everydayWords(told, found)}</dd></div>
    <div><dt>Labels from there on</dt><dd>${labelWords(found)}</dd></div>
    <div><dt>On the event, of the matches</dt><dd>${shareWords(told, found)}</dd></div>
    <div><dt>Of what is on the event, it finds</dt><dd>${recallWords(told, found)}</dd></div>
    <div><dt>Promise</dt><dd><${Promised} told=${told} at=${found.score} /></dd></div>
  </dl>
  <p class="quiet">A look, no promise: these intervals hold for a threshold that was chosen before anybody looked (90 %). Who moves the handle until one pleases lets chance choose with him.
    A promise is shown by labels, on the page <a href=${eventPage(told.event, "judge")}>Judge</a>.</p>`;
}

function Promised({ told, at }) {
  const { promise } = told;
  if (!promise) return html`none`;
  if (promise.lapsed) return html`lapsed: ${promise.lapsed}`;
  if (Math.abs(promise.threshold - at) < STEP / 2) return html`holds here: ${promised(promise)}`;
  return html`holds at ${score(promise.threshold)}, and not shown here`;
}

// What is set, in words, and both ways to set it.
function Set({ told, event, at, found, move, session, moved }) {
  const [asking, ask] = useState(null);
  const differs = moved && (told.thresholds[1] > told.thresholds[0] || Math.abs(at - told.thresholds[0]) >= STEP / 2);
  const set = async () => {
    const threshold = asking === "auto" ? null : Number(at.toFixed(3));
    const done = threshold === null ? "the threshold is automatic again" : `the threshold is ${score(threshold)}`;
    if ((await doing("/api/scores/threshold", { event, threshold }, done)) !== undefined) move(null);
  };
  return html`<div class="row">
    <label>Threshold <input type="number" min="0.001" max="1" step="0.001" value=${at.toFixed(3)} onChange=${(typed) => typed.target.reportValidity() && typed.target.value && move(within(Number(typed.target.value)))} /></label>
    ${moved && html`<button type="button" onClick=${() => move(null)}>Back to what is set</button>`}
    ${!session.read_only && html`<button type="button" class="main" disabled=${!differs} onClick=${() => ask("set")}>Set this threshold</button>
      <button type="button" disabled=${told.is_automatic} onClick=${() => ask("auto")}>${told.configured === null ? "Automatic again" : "As configured again"}</button>`}
  </div>
  ${asking && html`<${Confirm} title=${asking === "auto" ? "Take the threshold off?" : `Set the threshold to ${score(at)}?`} yes=${asking === "auto" ? "Take it off" : "Set it"} run=${set} close=${() => ask(null)}>
    <${Change} told=${told} auto=${asking === "auto"} found=${found} />
  <//>`}`;
}

function Change({ told, auto, found }) {
  const whose = told.state === "in force" && told.number === 1 ? "the event's profile" : told.number === 1 ? "its one seed" : `all ${number(told.number)} that its posts are compared with`;
  const before = reading(told, told.thresholds[0]);
  const automatic = told.configured !== null ? `${score(told.configured)}, as matching.threshold has it` : told.automatic.length ? `automatic: about ${cuts([told.automatic[0], told.automatic[told.automatic.length - 1]])}` : "automatic";
  return html`<p>The threshold of ${whose} is ${cuts(told.thresholds)}${told.is_automatic ? ", automatic" : ""}; it becomes ${auto ? automatic : score(found.score)}.
      All workers follow within a second; matches that were published stay.</p>
    ${!auto && html`<p>An hour: ${hourlyWords(told, found)}; now ${hourlyWords(told, before)}. Of 1,000 everyday posts: ${everydayWords(told, found)}; now ${everydayWords(told, before)}.</p>`}
    ${told.promise && html`<p class="refused">The promise of ${promised(told.promise)}, from ${score(told.promise.threshold)} on, is given up: it is of that threshold alone.</p>`}`;
}

function Table({ told }) {
  const step = Math.max(1, Math.ceil(told.edges.length / 24));
  const rows = told.edges.filter((edge, n) => n % step === 0 && edge > 0).reverse();
  const cells = (edge) => {
    const found = reading(told, edge);
    return html`<tr><th scope="row" class="number">${edge.toFixed(2)}</th><td>${hourlyWords(told, found)}</td><td class="number">${everydayWords(told, found)}</td><td>${labelWords(found)}</td></tr>`;
  };
  return html`<details><summary>As a table</summary><${Scrolls} name="Scores as a table"><table>
    <thead><tr><th scope="col" class="number">From</th><th scope="col">An hour</th><th scope="col" class="number">Of 1,000 everyday posts</th><th scope="col">Labels</th></tr></thead>
    <tbody>${rows.map(cells)}</tbody></table><//></details>`;
}
