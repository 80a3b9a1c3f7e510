// What a person wants labels to prove, what they prove, and publishing it: a promise.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Button, Confirm, ErrorText, LoadStatus, number, paragraph, percent } from "/lib/ui.js";
import { perform, plural, rate, score, Select, Step, Time } from "/lib/ui.js";
import { ProfilePicture, Run } from "/pages/event/learned.js";

const PRECISIONS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const CONFIDENCES = [0.8, 0.9, 0.95, 0.99];
// With the goal that there is, which may be of a command.
const options = (values, own) =>
  [...new Set([...values, own])].sort((a, b) => a - b).map((each) => [each, percent(each)]);
const goalWords = ({ precision, confidence }) =>
  `${percent(precision)} on the event, ${percent(confidence)} sure`;

const DEFAULT_GOAL = [0.8, 0.9];

// `asked` is the goal of the queue that is drawn.
export function Goal({ event, test, error, goal, asked, choose, isDone, session }) {
  const isLoading = !test || test.loading;
  const needsProfile = !isLoading && test.profile === null;
  const first = html`<${GoalChoice} goal=${goal ?? asked ?? DEFAULT_GOAL} choose=${choose} />
    <p class="quiet">${BEFORE}</p><${FirstProfile} event=${event} session=${session} />`;
  const what = test ? "Reading the articles and their matches" : undefined;
  return html`<${Step} number="2" title="What do you want to prove?" isDone=${isDone}
      state=${test?.profile ? goalWords(test) : needsProfile && "needs a profile"}>
    <${LoadStatus} answer=${!isLoading} error=${error} what=${what} />
    ${needsProfile && first}
    ${test?.profile && html`<${Choice} test=${test} chosen=${goal} choose=${choose} />`}<//>`;
}

const BEFORE = `Choose before the first label: what is chosen afterwards is another test.`;

function GoalChoice({ goal: [precision, confidence], choose }) {
  return html`<p class="row goal">
    <${Select} label="At least" options=${options(PRECISIONS, precision)} value=${precision}
      set=${(text) => choose([+text, confidence])} /> of the matches are on the event, and I want
    <${Select} label="to be" options=${options(CONFIDENCES, confidence)} value=${confidence}
      set=${(text) => choose([precision, +text])} /> sure.</p>`;
}

function Choice({ test, chosen, choose }) {
  const { result } = test;
  const goal = html`<${GoalChoice} goal=${chosen ?? [test.precision, test.confidence]} choose=${choose} />`;
  const matches = plural(result.matches, "match", "matches");
  const { at_best: best, for_all: all, usual, expected_share: expected } = result.plan;
  const first = best < all ? `for the highest scores, and ${number(all)} ` : "";
  const usually = usual
    ? `If ${outOf(expected)} are on the event, usually ${plural(usual, "label")}.`
    : `If only ${outOf(expected)} are on the event, these matches usually prove nothing.`;
  const takes = `At best ${plural(best, "label")}, ${first}for all ${matches}, if none is off. ${usually}`;
  const few = `At best it would take ${plural(best, "label")}, and of ${matches} too few can be
    drawn. Choose less, or read them all.`;
  const need = paragraph("", all ? takes : result.matches > 0 && few);
  if (!result.labels) {
    return html`${goal}${need}<p class="quiet">${BEFORE}</p>`;
  }
  return html`${need}<details><summary>Choose something else</summary>${goal}
    <p class="quiet">That is another test. Whoever tries several and shows only the best one proves
      less than it says.</p></details>`;
}

// What labels prove is of a profile: the first one can be made here.
function FirstProfile({ event, session }) {
  const [data, error] = useAnswer("/api/learned", { event }, ["events", "seeds"]);
  const begin = () => perform("/api/learned/learn", { event, hours: 0, labels: false });
  const disabled = session.read_only || data?.busy;
  const button = html`<${Button} kind="main" run=${begin} disabled=${disabled}>See that profile<//>`;
  return html`<p>First the event needs a profile: what its articles have in common, less what
      everyday posts share with them. Posts are then compared with the profile instead of with each
      article, and what labels prove is true of that profile.</p>
    <${ProfilePicture} />
    <${ErrorText} error=${error} />
    ${paragraph("refused", data?.error, "status")}
    ${data?.run && html`<${Run} data=${data} run=${data.run} session=${session} />`}
    ${data?.error === "" && !data.run && button}`;
}

const isPublished = ({ promise, precision, confidence, threshold, result }) =>
  promise?.precision === precision &&
  promise.confidence === confidence &&
  threshold === result.threshold;

// Eight of ten, nineteen of twenty.
function outOf(share) {
  const all = [10, 20, 100].find((n) => Math.abs(n * share - Math.round(n * share)) < 1e-9);
  return all ? `${Math.round(all * share)} of ${all}` : percent(share);
}

export function Proof({ event, test, again, session }) {
  const [isConfirming, setConfirming] = useState(false);
  const { result, stale } = test;
  const isProven = result.threshold !== null;
  const sentence = html`Of the matches from <b>${score(result.threshold)}</b> on, at least
    <b> ${outOf(test.precision)}</b> are on the event; ${percent(test.confidence)} sure;
    ${" "}${plural(result.labels, "label")}.`;
  const lower = `${plural(result.missing, "more label")} would prove a lower threshold, if none is off.`;
  const ask = html`<${Ask} event=${event} test=${test} again=${again}
    close=${() => setConfirming(false)} />`;
  const done = isPublished(test);
  const disabled = session.read_only || done || stale || !isProven;
  const problem = `The profile is not in force, the articles are used: ${stale}. Let the event learn
    again, and judge its matches.`;
  const { exact } = result;
  const state = done ? "published" : isProven ? "can be published" : exact ? "known exactly" : "nothing yet";
  return html`<${Step} number="4" title="What the labels prove" state=${state}>
    ${paragraph("refused", stale && problem)}
    <p role="status">${isProven ? sentence : `${exact ? "" : "Nothing yet: "}${test.missing}.`}</p>
    ${paragraph("quiet", isProven && result.more && lower)}
    ${paragraph("quiet", !isProven && !exact && result.labels > 0 &&
      `${number(result.on)} of ${plural(result.labels, "label")} on the event so far.`)}
    ${!done && html`<${Rates} rates=${test.hourly} />`}
    <${Promised} test=${test} />
    <${Button} kind="main" disabled=${disabled} run=${() => setConfirming(true)}>
      ${done ? "Published" : "Publish this threshold"}<//>
    ${isConfirming && isProven && ask}<//>`;
}

function Promised({ test: { promise, threshold } }) {
  const now = threshold ? `set to ${score(threshold)}` : "automatic";
  if (!promise) return paragraph("quiet", `Nothing is published yet: the threshold is ${now}.`);
  return html`<p>Published <${Time} at=${promise.at} /> by <bdi>${promise.by}</bdi>:
    ${` ${goalWords(promise)}, from ${score(threshold)} on.`}</p>`;
}

function Rates({ rates }) {
  if (!rates || rates.now === null) return null;
  const then = html`, <b>${rates.then !== null && rate(rates.then)}</b> would from there on`;
  return html`<p>About ${rate(rates.now)} posts an hour match now${rates.then !== null && then}:
    ${" "}${rates.window}.</p>`;
}

function Ask({ event, test, close, again }) {
  const { precision, confidence } = test;
  const { threshold, labels, version } = test.result;
  const publish = async () => {
    const done = `the threshold of ${event} is ${score(threshold)}`;
    const shown = { event, precision, confidence, evidence: version };
    await perform("/api/judge/promise", shown, done);
    again();
  };
  const now = test.threshold ? score(test.threshold) : "automatic";
  return html`<${Confirm} title="Publish this threshold?" yes="Publish" run=${publish} close=${close}>
    <p>The threshold of <bdi>${event}</bdi> becomes <b>${score(threshold)}</b>, in every worker at
      once (now ${now}).</p>
    <p>With it goes a promise: of the matches from there on, those that say the same counted once,
      at least ${outOf(precision)} are on the event; ${percent(confidence)} sure, by
      ${" "}${plural(labels, "label")}.</p>
    <p>The profile then stays as it is: it learns no more until you renew the promise or give it up.
      The promise lapses when so few posts match that most of them would match without the event.</p>
  <//>`;
}
