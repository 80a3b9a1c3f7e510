// What the labels show of an event's threshold, and promising it.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Confirm } from "/lib/confirm.js";
import { Do, doing, number, percent, plural, Refused, tell, Time, Waiting } from "/lib/ui.js";
import { Lesson } from "/views/event/learned/lesson.js";

const PRECISIONS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95], CONFIDENCES = [0.8, 0.9, 0.95, 0.99];
const hourly = (rate) => (rate >= 10 ? number(Math.round(rate)) : rate.toFixed(1));

function Choice({ name, all, value, set }) {
  return html`<label>${name} <select value=${value} onChange=${(event) => set(+event.target.value)}>
    ${all.map((each) => html`<option value=${each}>${percent(each)}</option>`)}</select></label>`;
}

function Stands({ found }) {
  const promise = found.promise;
  if (!promise) return html`<p class="quiet">Nothing is promised yet: the threshold ${found.threshold ? `is set to ${found.threshold.toFixed(4)}` : "is automatic"}.</p>`;
  return html`<p>Promised <${Time} at=${promise.at} /> by <bdi>${promise.by}</bdi>: ${percent(promise.precision)} at ${percent(promise.confidence)} confidence, from ${found.threshold?.toFixed(4)} on.</p>`;
}

function Shown({ found, precision, confidence }) {
  const { shown, hourly: rates } = found;
  const held = `${percent(precision)} of the matches are right, at ${percent(confidence)} confidence`;
  return html`<p role="status">${shown.threshold === null ? html`Not shown yet: ${held}; ${found.says}.` : html`Shown from <b>${shown.threshold.toFixed(4)}</b> on: ${held}.`}</p>
    <p class="quiet">By ${plural(shown.labels, "label")}, ${number(shown.on)} of them on the event, of ${plural(shown.matches, "match", "matches")} of this profile.
      ${shown.threshold !== null && shown.more ? ` ${plural(shown.missing, "more label")} would show a lower threshold, if none is wrong.` : ""}</p>
    ${rates && html`<p>${rates.now === null ? "Too little time has passed to tell how many posts an hour match." : html`About ${hourly(rates.now)} posts an hour match now${rates.then === null ? "" : html`, <b>${hourly(rates.then)}</b> would from there on`}: ${rates.window}.`}</p>`}`;
}

// A promise is of a profile: the lesson that makes the first one, as the page Learned has it.
function First({ event, session }) {
  const [told, refused] = useAnswer("/api/learned", { event }, ["events", "seeds"]);
  const begin = () => doing("/api/learned/learn", { event, hours: 0, labels: false });
  return html`<p>A promise is of a profile: one of the seeds and of everyday posts comes first.</p><${Refused} error=${refused} />
    ${told?.away && html`<p class="refused" role="status">${told.away}</p>`}
    ${told && !told.away && (told.lesson
      ? html`<${Lesson} told=${told} lesson=${told.lesson} session=${session} />`
      : html`<${Do} run=${begin} disabled=${session.read_only || told.busy}>See that profile<//>`)}`;
}

function Sets({ event, found, wish, close, again }) {
  const { threshold } = found.shown;
  const set = async () => {
    if ((await doing("/api/judge/promise", { event, ...wish, threshold })) !== undefined) tell(`the threshold of ${event} is ${threshold.toFixed(4)}`);
    again();
  };
  return html`<${Confirm} title="Promise this?" yes="Promise this" run=${set} close=${close}>
    <p>It sets the threshold of <bdi>${event}</bdi> to <b>${threshold.toFixed(4)}</b>, for all workers at once${found.threshold ? ` (now ${found.threshold.toFixed(4)})` : " (now automatic)"}.</p>
    <p>It records that at least ${percent(wish.precision)} of the distinct matches above it are on the event, at ${percent(wish.confidence)} confidence, by ${plural(found.shown.labels, "label")}.</p>
    <p>It is of this version of the profile: learning leaves that alone until the promise is renewed or given up. It lapses when so few posts pass that most would pass without the event too.</p>
  <//>`;
}

export function Promised({ event, session }) {
  const [precision, setPrecision] = useState(0.8);
  const [confidence, setConfidence] = useState(0.9);
  const [sets, ask] = useState(false);
  const wish = { precision, confidence };
  const [found, refused, again] = useAnswer("/api/judge/shown", { event, ...wish }, ["labels", "seeds"], 2000);
  const mayAct = !session.read_only;
  const stands = found?.promise && found.promise.precision === precision && found.promise.confidence === confidence && found.threshold === found.shown.threshold;
  return html`<section class="promised"><h2>What the labels show</h2><${Refused} error=${refused} />
    ${found?.profile === null
      ? found.loading ? html`<${Waiting} what="Reading the seeds" />` : html`<${First} event=${event} session=${session} />`
      : html`${found && html`<${Stands} found=${found} />`}
        ${found?.stale && html`<p class="refused">The profile is not in force, the seeds serve: ${found.stale}. Let it learn again, and judge its matches.</p>`}
        <p class="row"><${Choice} name="Precision" all=${PRECISIONS} value=${precision} set=${setPrecision} />
          <${Choice} name="Confidence" all=${CONFIDENCES} value=${confidence} set=${setConfidence} />
          <small class="quiet">Choose before you judge: each other choice is another test.</small></p>
        ${!found ? !refused && html`<${Waiting} />` : html`<${Shown} found=${found} ...${wish} /><${Do} kind="main" disabled=${!mayAct || stands || found.stale || found.shown.threshold === null} run=${() => ask(true)}>${stands ? "This is promised" : "Promise this"}<//>
        ${sets && found.shown.threshold !== null && html`<${Sets} event=${event} found=${found} wish=${wish} close=${() => ask(false)} again=${again} />`}`}`}
  </section>`;
}
