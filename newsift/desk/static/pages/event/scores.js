// An event's scores: the histogram, the effect of another threshold, and near misses.
import { html, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Attachments, Confirm, eventAddress, ExternalLink, Facts, HighlightedText } from "/lib/ui.js";
import { LoadStatus, number, paragraph, percent, perform, plural, score, scores } from "/lib/ui.js";
import { Table, Time } from "/lib/ui.js";
import { Counts } from "/pages/event/counts.js";
import { Histogram, Legend } from "/pages/event/histogram.js";
import { backgroundWords, changeWords, hourlyFigure, inRange, labelWords } from "/pages/event/reading.js";
import { readAt, recallFigure, said, shareFigure, STEP } from "/pages/event/reading.js";

const SCORES_REFRESH_MS = 3000;
const NEAR_REFRESH_MS = 10000;
const TABLE_ROWS = 24;
const SCORES_PARTS = ["matches", "labels", "seeds", "events"];

const span = (hours) => {
  if (hours >= 1.5) return plural(Math.round(hours), "hour");
  const minutes = Math.round(60 * hours);
  return minutes > 1 ? plural(minutes, "minute") : "minute";
};
const promiseWords = ({ precision, confidence }) =>
  `${percent(precision)} of the matches on the event, at ${percent(confidence)} confidence`;

export default function Scores({ event, session }) {
  const [data, error] = useAnswer("/api/scores", { event }, SCORES_PARTS, SCORES_REFRESH_MS);
  return html`<${LoadStatus} answer=${data} error=${error} />
    ${paragraph("refused", data?.error, "status")}
    ${data?.edges && !data.compared && html`<${NoSeed} data=${data} />`}
    ${data?.compared > 0 && html`<${Thresholds} data=${data} event=${event} session=${session} />`}
    <${Counts} event=${event} />
    <${NearMisses} event=${event} />`;
}

const NoSeed = ({ data }) =>
  html`<p>No post is compared with this event: it has no seed that matches.
    ${data.why && ` Its profile is ${data.state}: ${data.why}.`} <a href="#/seeds">Seeds</a></p>`;

function Thresholds({ data, event, session }) {
  const [choice, setChoice] = useState(null);
  const at = choice ?? inRange(data.thresholds[0]);
  const reading = readAt(data, at);
  const problem = data.why && `The profile is ${data.state}, its seeds are used: ${data.why}`;
  const compared = data.state === "in force" ? "the profile" : plural(data.compared, "seed");
  return html`
    ${data.messages.map((line) => paragraph("refused", line))}
    ${paragraph("refused", problem)}
    <h2>Where the scores lie</h2>
    <p class="quiet">${plural(data.matched, "match", "matches")} of
      ${session.is_file ? " the file" : ` the last ${span(data.hours)}`}, by ${compared}. The threshold is ${scores(data.thresholds)},
      ${data.is_automatic ? " automatic." : " set."} Drag it, or use the arrow keys, to see what another would do.</p>
    <${Histogram} data=${data} at=${at} move=${setChoice} />
    <${Legend} />
    <p><b>From ${score(at)} on: </b>${changeWords(data, at)}</p>
    <${Reading} data=${data} reading=${reading} />
    <${SetThreshold} data=${data} event=${event} at=${at} reading=${reading} move=${setChoice}
      session=${session} isMoved=${choice !== null} />
    <${ScoreTable} data=${data} />`;
}

// A tile for each figure that is known, and one line with the reasons for the others.
function Reading({ data, reading }) {
  const hourly = hourlyFigure(data, reading);
  const window = hourly.known && html`${hourly.known} <span class="quiet">(${data.window})</span>`;
  const labelled = reading.labels.on + reading.labels.off + reading.labels.unsure > 0;
  const figures = [
    ["Matches an hour", { ...hourly, known: window }],
    ["Share of the matches on the event", shareFigure(data, reading)],
    ["Share of the event’s posts that match", recallFigure(data, reading)],
  ];
  const rows = [
    ["Of 1,000 everyday posts", `${backgroundWords(data, reading)} would match`],
    labelled && ["Labels from there on", labelWords(reading)],
    ...figures.map(([name, { known }]) => known && [name, known]),
    data.promise && ["Promise", promiseState(data.promise, reading.score)],
  ];
  const unknown = figures
    .filter(([, { known }]) => !known)
    .map(([name, { unknown }]) => `${name.toLowerCase()} (${unknown})`);
  return html`<${Facts} rows=${rows} />
    ${paragraph("quiet", unknown.length > 0 && `Not known: ${unknown.join("; ")}.`)}
    ${reading.labels.share && html`<p class="quiet">These shares are 90 % sure for a threshold that was
      chosen before anybody looked. What holds for a threshold that you look for is proven by labels,
      on the page <a href=${eventAddress(data.event, "judge")}>Judge</a>.</p>`}`;
}

function promiseState(promise, at) {
  if (promise.lapsed) return `lapsed: ${promise.lapsed}`;
  const isHere = Math.abs(promise.threshold - at) < STEP / 2;
  if (isHere) return `holds here: ${promiseWords(promise)}`;
  return `holds from ${score(promise.threshold)} on`;
}

function SetThreshold({ data, event, at, reading, move, session, isMoved }) {
  const [action, setAction] = useState(null);
  const [low, high] = data.thresholds;
  const differs = isMoved && (high > low || Math.abs(at - low) >= STEP / 2);
  const isAutomatic = action === "automatic";
  const set = async () => {
    const threshold = isAutomatic ? null : Number(at.toFixed(3));
    const done = `the threshold is ${isAutomatic ? "automatic again" : score(threshold)}`;
    const answer = await perform("/api/scores/threshold", { event, threshold }, done);
    if (answer !== undefined) move(null);
  };
  const type = ({ target }) =>
    target.reportValidity() && target.value && move(inRange(Number(target.value)));
  const back = html`<button type="button" onClick=${() => move(null)}>Back to what is set</button>`;
  const buttons = html`<button type="button" class="main" disabled=${!differs}
      onClick=${() => setAction("set")}>Set this threshold</button>
    <button type="button" disabled=${data.is_automatic} onClick=${() => setAction("automatic")}>
      ${data.configured === null ? "Automatic again" : "As configured again"}</button>`;
  const confirm = html`<${Confirm} run=${set} close=${() => setAction(null)}
    title=${isAutomatic ? "Make the threshold automatic?" : `Set the threshold to ${score(at)}?`}
    yes=${isAutomatic ? "Make it automatic" : "Set it"}>
    <${Consequences} data=${data} isAutomatic=${isAutomatic} reading=${reading} /><//>`;
  return html`<div class="row">
    <label>Threshold <input type="number" min="0.001" max="1" step="0.001" value=${at.toFixed(3)}
      onChange=${type} /></label>
    ${isMoved && back}${!session.read_only && buttons}</div>${action && confirm}`;
}

function Consequences({ data, isAutomatic, reading }) {
  const one = data.state === "in force" ? "the event's profile" : "its one seed";
  const all = `all ${number(data.compared)} that its posts are compared with`;
  const { automatic, promise } = data;
  const about = automatic.length ? `automatic: about ${scores(automatic)}` : "automatic";
  const configured = `${score(data.configured)}, as matching.threshold has it`;
  const next = data.configured === null ? about : configured;
  const now = readAt(data, data.thresholds[0]);
  const rates = `${changeWords(data, reading.score)} Of 1,000 everyday posts
    ${backgroundWords(data, reading)} would match; now ${backgroundWords(data, now)}.`;
  const loss = () => `The promise of ${promiseWords(promise)}, from ${score(promise.threshold)} on,
    ends: it is true of that threshold alone.`;
  return html`<p>The threshold of ${data.compared === 1 ? one : all} is
      ${" "}${scores(data.thresholds)}${data.is_automatic ? ", automatic" : ""}; it becomes
      ${" "}${isAutomatic ? next : score(reading.score)}. All workers follow within a second; matches
      that were published stay.</p>
    ${paragraph("", !isAutomatic && rates)}${paragraph("refused", promise && loss())}`;
}

function ScoreTable({ data }) {
  const step = Math.max(1, Math.ceil(data.edges.length / TABLE_ROWS));
  const edges = data.edges.filter((edge, n) => n % step === 0 && edge > 0).reverse();
  const rows = edges.map((edge) => {
    const reading = readAt(data, edge);
    const words = [said(hourlyFigure(data, reading)), backgroundWords(data, reading), labelWords(reading)];
    return [edge.toFixed(2), ...words];
  });
  const heads = ["#From", "Matches an hour", "#Of 1,000 everyday posts", "Labels"];
  return html`<details><summary>As a table</summary>
    <${Table} name="Scores as a table" heads=${heads} rows=${rows} /></details>`;
}

function NearMisses({ event }) {
  const parts = ["matches", "seeds"];
  const [data, error] = useAnswer("/api/scores/near", { event }, parts, NEAR_REFRESH_MS);
  const reasons = data?.messages?.length ? `: ${data.messages.join("; ")}` : "";
  const text = `${plural(data?.count, "post")} came near and did not match. The workers keep some of
    them, drawn at random; the newest are:`;
  const posts = data?.near?.map((post) => html`<${NearMiss} post=${post} />`);
  return html`<h2>Just below the threshold</h2>
    <${LoadStatus} answer=${data} error=${error} />
    ${paragraph("quiet", posts?.length === 0 && `No near misses are kept${reasons}.`)}
    ${posts?.length > 0 && html`${paragraph("quiet", text)}<ul class="plain">${posts}</ul>`}`;
}

const NearMiss = ({ post }) =>
  html`<li class="card near"><div class="line"><span class="score">${score(post.score)}</span>
    <div class="text"><${HighlightedText} text=${post.text} why=${post.why} />
      <${Attachments} post=${post} /></div>
    <div class="quiet row about">
      ${post.platform !== "plain" && html`<span>${post.platform}</span>`}
      ${post.author && html`<bdi>${post.author}</bdi>`}
      ${post.created_at && html`<${Time} at=${post.created_at} />`}
      ${post.url && html`<${ExternalLink} href=${post.url}>open<//>`}
      ${post.label && html`<span class="badge">labelled ${post.label}</span>`}</div></div></li>`;
