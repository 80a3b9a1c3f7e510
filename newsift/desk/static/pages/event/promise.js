// What labels prove of an event's threshold, and its promise.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Button, Confirm, ErrorText, LoadingText, number, paragraph, percent } from "/lib/ui.js";
import { perform, plural, rate, Select, Time } from "/lib/ui.js";
import { Run } from "/pages/event/learned.js";

const shares = (values) => values.map((each) => [each, percent(each)]);
const PRECISIONS = shares([0.5, 0.6, 0.7, 0.8, 0.9, 0.95]);
const CONFIDENCES = shares([0.8, 0.9, 0.95, 0.99]);
const REFRESH_MS = 2000;

export function Promises({ event, session }) {
  const [precision, setPrecision] = useState(0.8);
  const [confidence, setConfidence] = useState(0.9);
  const target = { precision, confidence };
  const question = { event, ...target };
  const parts = ["labels", "seeds"];
  const [test, error, again] = useAnswer("/api/judge/promise-test", question, parts, REFRESH_MS);
  const choice = html`<p class="row">
      <${Select} label="Precision" options=${PRECISIONS} value=${precision}
        set=${(text) => setPrecision(+text)} />
      <${Select} label="Confidence" options=${CONFIDENCES} value=${confidence}
        set=${(text) => setConfidence(+text)} />
      <small class="quiet">Choose before you judge: each other choice is another test.</small></p>
    ${!test && !error && html`<${LoadingText} />`}`;
  const first = html`<${FirstProfile} event=${event} session=${session} />`;
  const result = html`<${Result} event=${event} test=${test} target=${target} again=${again}
    session=${session} />`;
  return html`<section class="promised"><h2>What the labels show</h2><${ErrorText} error=${error} />
    ${test?.loading && html`<${LoadingText} what="Reading the seeds and their matches" />`}
    ${test?.profile === null && !test.loading && first}
    ${test?.profile && html`<${Present} test=${test} />`}
    ${test?.profile !== null && choice}
    ${test?.profile && result}</section>`;
}

// A promise needs a profile: the first one can be made here.
function FirstProfile({ event, session }) {
  const [data, error] = useAnswer("/api/learned", { event }, ["events", "seeds"]);
  const begin = () => perform("/api/learned/learn", { event, hours: 0, labels: false });
  const disabled = session.read_only || data?.busy;
  const button = html`<${Button} run=${begin} disabled=${disabled}>See that profile<//>`;
  return html`<p>A promise needs a profile: what the event's articles have in common, less what
      everyday posts share with them. Posts are then compared with the profile in the place of the
      articles, and the promise is about this one version of it.</p>
    <${ErrorText} error=${error} />
    ${paragraph("refused", data?.error, "status")}
    ${data?.run && html`<${Run} data=${data} run=${data.run} session=${session} />`}
    ${data?.error === "" && !data.run && button}`;
}

function Present({ test: { promise, threshold, stale } }) {
  const state = threshold ? `is set to ${threshold.toFixed(4)}` : "is automatic";
  const remedy = "Let it learn again, and judge its matches.";
  const problem = `The profile is not in force, the seeds are used: ${stale}. ${remedy}`;
  return html`${promise && html`<${Promised} promise=${promise} threshold=${threshold} />`}
    ${paragraph("quiet", !promise && `Nothing is promised yet: the threshold ${state}.`)}
    ${paragraph("refused", stale && problem)}`;
}

const Promised = ({ promise: { at, by, precision, confidence }, threshold }) =>
  html`<p>Promised <${Time} at=${at} /> by <bdi>${by}</bdi>: ${percent(precision)} at
    ${` ${percent(confidence)} confidence`}, from ${threshold?.toFixed(4)} on.</p>`;

function Result({ event, test, target, again, session }) {
  const [isConfirming, setConfirming] = useState(false);
  const { result, promise } = test;
  const isShown = result.threshold !== null;
  const isPromised =
    promise?.precision === target.precision &&
    promise.confidence === target.confidence &&
    test.threshold === result.threshold;
  const claim =
    `${percent(target.precision)} of the matches are right, ` +
    `at ${percent(target.confidence)} confidence`;
  const shown = html`Shown from <b>${result.threshold?.toFixed(4)}</b> on: ${claim}.`;
  const missing = plural(result.missing, "more label");
  const lower = ` ${missing} would show a lower threshold, if none is wrong.`;
  const ask = html`<${Ask} event=${event} test=${test} target=${target} again=${again}
    close=${() => setConfirming(false)} />`;
  const disabled = session.read_only || isPromised || test.stale || !isShown;
  return html`<p role="status">${isShown ? shown : `Not shown yet: ${claim}; ${test.missing}.`}</p>
    <p class="quiet">By ${plural(result.labels, "label")}, ${number(result.on)} of them on the
      event, of ${plural(result.matches, "match", "matches")} of this profile.
      ${isShown && result.more && lower}</p>
    <${Rates} rates=${test.hourly} />
    <${Button} kind="main" disabled=${disabled} run=${() => setConfirming(true)}>
      ${isPromised ? "This is promised" : "Promise this"}<//>
    ${isConfirming && isShown && ask}`;
}

function Rates({ rates }) {
  if (!rates) return null;
  if (rates.now === null) {
    return paragraph("", "The time is too short to tell how many posts an hour match.");
  }
  const then = html`, <b>${rates.then !== null && rate(rates.then)}</b> would from there on`;
  return html`<p>About ${rate(rates.now)} posts an hour match now${rates.then !== null && then}:
    ${" "}${rates.window}.</p>`;
}

function Ask({ event, test, target, close, again }) {
  const { threshold, labels } = test.result;
  const promise = async () => {
    const done = `the threshold of ${event} is ${threshold.toFixed(4)}`;
    await perform("/api/judge/promise", { event, ...target, threshold }, done);
    again();
  };
  const now = test.threshold ? test.threshold.toFixed(4) : "automatic";
  return html`<${Confirm} title="Promise this?" yes="Promise this" run=${promise} close=${close}>
    <p>It sets the threshold of <bdi>${event}</bdi> to <b>${threshold.toFixed(4)}</b>, for all
      workers at once (now ${now}).</p>
    <p>It records that at least ${percent(target.precision)} of the distinct matches above it are on
      the event, at ${percent(target.confidence)} confidence, by ${plural(labels, "label")}.</p>
    <p>It is of this version of the profile: learning leaves that alone until the promise is renewed
      or given up. It lapses when so few posts pass that most would pass without the event too.</p>
  <//>`;
}
