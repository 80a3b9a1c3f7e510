// The profile of an event, what it would learn now, and its earlier versions.
import { html, useEffect, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Button, ConfirmButton, eventAddress, Facts, LoadStatus, number } from "/lib/ui.js";
import { paragraph, perform, plural, quoted, score, scores, Time } from "/lib/ui.js";

const SPANS = [
  [1, "the last hour"],
  [6, "the last 6 hours"],
  [24, "the last 24 hours"],
  [0, "no posts"],
];
const FILE_SPANS = [
  [24, "all posts of the file"],
  [0, "no posts"],
];
const thresholdWords = (thresholds) => (thresholds.length ? scores(thresholds) : "–");

export default function Learned({ event, session }) {
  const [data, error] = useAnswer("/api/learned", { event }, ["events", "seeds"]);
  const parts = html`<${Profile} data=${data} /><${Learn} data=${data} session=${session} />
    <${Versions} data=${data} session=${session} />`;
  return html`<${LoadStatus} answer=${data} error=${error} />
    ${paragraph("refused", data?.error, "status")}
    ${data?.event && parts}`;
}

// Articles, less everyday posts, make a profile, and posts are compared with that.
export const ProfilePicture = () =>
  html`<svg class="picture-of-profile" viewBox="0 0 366 96" role="img" aria-label="Articles less
      everyday posts make a profile; posts are compared with the profile">
    <path class="paper" d="M14 8h32v40h-32z" /><path class="paper" d="M24 18h32v40h-32z" />
    <path class="paper" d="M34 28h32v40h-32z" />
    <path class="text" d="M40 38h20M40 46h20M40 54h13" />
    <path class="sign" d="M80 38h14" />
    <path class="paper" d="M106 10h48v14h-48zM114 31h48v14h-48zM104 52h48v14h-48z" />
    <path class="sign" d="M176 33h14M176 43h14" />
    <circle class="profile" cx="226" cy="38" r="20" />
    <path class="link" d="M252 34l40 -15M252 38h40M252 44l40 14" />
    <path class="paper" d="M298 10h44v14h-44zM298 31h44v14h-44zM298 52h44v14h-44z" />
    <path class="yes" d="M349 17l4 5l8 -10M349 38l4 5l8 -10" />
    <path class="no" d="M350 55l9 9m0 -9l-9 9" />
    <g><text x="40" y="90">articles</text><text x="133" y="90">everyday posts</text>
      <text x="226" y="90">profile</text><text x="320" y="90">posts</text></g></svg>`;

function Profile({ data }) {
  const names = `${data.seeds.join(", ")}${data.all_seeds > data.seeds.length ? ", …" : ""}`;
  const seeds = `${plural(data.all_seeds, "seed")}${data.all_seeds ? ` (${names})` : ""}`;
  if (!data.has_profile) {
    return html`<h2>Nothing learned yet</h2><p>Posts are compared with ${seeds}. The event can learn a
      profile: what its articles and its best posts have in common, less what everyday posts share
      with them. Posts are then compared with the profile instead of with each article.</p>
      <${ProfilePicture} />`;
  }
  const state = `Posts are compared with a profile, which stands for ${seeds}; threshold
    ${thresholdWords(data.thresholds)}, ${data.automatic ? "automatic" : "set"}.`;
  const problem = `The profile is ${data.profile}: ${data.why}. Its seeds are used: ${seeds}.`;
  return html`<h2>What it has learned</h2>
    ${data.why ? paragraph("refused", problem) : paragraph("", state)}
    <${Words} creation=${data.creation} />
    <${Creation} creation=${data.creation} />`;
}

// The labels that it can learn from; those that prove something teach nothing.
function labelCount({ event, labels: { on, off } }) {
  if (!on && !off) {
    return html`labels: none yet; judge${" "}<a href=${eventAddress(event, "judge")}>posts around the
      threshold</a>`;
  }
  return html`${plural(on + off, "label")}, ${number(on)} on and ${number(off)} off, of posts that prove
    nothing`;
}

function Learn({ data, session }) {
  const [hours, setHours] = useState(24);
  const [labels, setLabels] = useState(true);
  const { event, busy, run } = data;
  if (data.promised) {
    return html`<h2>Learn now</h2><p>Its threshold has a promise, which is true of this profile alone.
      ${" "}${data.why ? html`The profile is not in force (${data.why}): undo that` : html`Renew the
      promise on the page <a href=${eventAddress(event, "judge")}>Judge</a>`}, or give it up by
      going back below.</p>`;
  }
  if (!data.all_seeds) {
    return html`<h2>Learn now</h2><p>It has no seed that matches; <a href="#/seeds">add one</a> or
      resume it.</p>`;
  }
  const begin = () => perform("/api/learned/learn", { event, hours, labels });
  const choice = ([value, text]) =>
    html`<label class="choice"><input type="radio" name="span" checked=${hours === value}
      onChange=${() => setHours(value)} /> ${text}</label>`;
  const other = busy && busy !== event && html`<bdi>${busy}</bdi> learns now; one at a time.`;
  const [where, spans] = session.is_file ? ["file", FILE_SPANS] : ["stream", SPANS];
  const fields = html`<fieldset><legend>From its seeds, everyday posts and, of the ${where},</legend>
    ${spans.map(choice)}
    <label class="choice"><input type="checkbox" checked=${labels}
      onChange=${(change) => setLabels(change.target.checked)} /> <span>and from ${labelCount(data)}</span></label>
    <p class="row"><${Button} run=${begin} disabled=${!!busy}>See what it would learn<//>
      <span class="quiet">Nothing is published before you have seen it.</span></p>
    ${paragraph("quiet", other)}</fieldset>`;
  return html`<h2>Learn now</h2>${!session.read_only && fields}
    ${run && html`<${Run} data=${data} run=${run} session=${session} />`}`;
}

function Versions({ data, session }) {
  if (!data.has_profile) return null;
  const target = data.back_to ? "the previous version" : "no profile";
  const question = { event: data.event, version: data.version ?? "" };
  const go = () => perform("/api/learned/forget", question, `back to ${target}`);
  const version = ({ at, by, method, labels }) =>
    html`<li>${at ? html`<${Time} at=${at} />` : "at an unknown time"}
      ${by && html` by <bdi>${by}</bdi>`}${method && `, of ${method}`}
      ${labels > 0 && `, ${plural(labels, "label")}`}</li>`;
  const versions = html`<ol>${data.before.map(version)}</ol>`;
  const none = paragraph("quiet", "None: before this profile, posts were compared with the seeds.");
  const consequence = data.back_to
    ? "The previous version takes the place of this profile."
    : "The profile is deleted, and posts are compared with the seeds again.";
  const button = html`<p><${ConfirmButton} text=${`Go back to ${target}`} kind="bad"
    title="Go back?" yes="Go back" run=${go}>
    <p>${consequence} This version is not kept. All workers follow within a second.</p>
    ${paragraph("refused", data.promised && "The promise of its threshold is given up with it.")}
  <//></p>`;
  return html`<h2>Earlier versions</h2>
    ${data.before.length ? versions : none}
    ${!session.read_only && button}`;
}

// A training run: its progress, its failure or its proposal.
export function Run({ data, run, session }) {
  if (!run.ended) return html`<${Running} run=${run} isFile=${session.is_file} />`;
  if (run.refusal) return html`<p class="refused" role="alert">${run.refusal}</p>`;
  return html`<${Proposal} data=${data} run=${run} proposal=${run.proposal} session=${session} />`;
}

function Running({ run, isFile }) {
  const [more, setMore] = useState(0);
  useEffect(() => {
    setMore(0);
    const timer = setInterval(() => setMore((seconds) => seconds + 1), 1000);
    return () => clearInterval(timer);
  }, [run.seconds]);
  const ofStream = `${plural(run.hours, "hour")} of posts and as many before are read`;
  const hours = isFile ? "all posts of the file are read" : ofStream;
  return html`<p role="status">It
    learns${run.hours ? `; ${hours}, then read again to compare` : ""} …</p>
    <p class="quiet" aria-hidden="true">${Math.round(run.seconds) + more} s <progress></progress>
      </p>`;
}

function Proposal({ data, run, proposal, session }) {
  const question = { event: data.event, version: proposal.version };
  const publish = () => perform("/api/learned/publish", question, "the profile is published");
  const replaced = data.has_profile
    ? "the profile that the event has, which is kept as a previous version"
    : plural(data.all_seeds, "seed");
  const lost = data.automatic === false ? "; the one that was set is gone" : "";
  const button = html`<${ConfirmButton} text="Publish this profile" kind="main"
    title="Publish this profile?" yes="Publish" run=${publish}>
    <p>It takes the place of ${replaced}. Scores are others from then on, and so are
      thresholds${lost}.</p>${paragraph("refused", run.risk)}<//>`;
  return html`<section class="card" aria-label="What it would learn">
    <h3>${proposal.is_news ? "What it would learn" : "Nothing new: the profile stays as it is"}</h3>
    ${run.messages.map((line) => paragraph(line.startsWith("look: ") ? "refused" : "quiet", line))}
    ${paragraph("refused", run.risk && `Look before you publish: ${run.risk}`)}
    <${Words} creation=${proposal.creation} />
    <${Change} proposal=${proposal} isFile=${session.is_file} />
    <${Creation} creation=${{ ...proposal.creation, at: null, by: "" }} />
    ${proposal.is_news && !session.read_only && button}</section>`;
}

function Change({ proposal, isFile }) {
  const { passes, threshold, read, hours, per_1000_of_the_background: background } = proposal;
  const both = ({ before, after }) => `${before.toFixed(1)} → ${after.toFixed(1)}`;
  const hourly = { before: passes.before / hours, after: passes.after / hours };
  const rates = hours > (isFile ? 1 : 1 / 60) ? `; an hour ${both(hourly)}` : "";
  const matches = `${number(passes.before)} → ${number(passes.after)} match${rates}`;
  const rows = [
    ["Threshold", `${thresholdWords(threshold.before)} → ${thresholdWords(threshold.after)}`],
    ["Of 1,000 everyday posts", `${both(background)} match`],
    read > 0 && [`Of ${number(read)} posts of the ${isFile ? "file" : "stream"}`, matches],
  ];
  return html`<${Facts} rows=${rows} />
    <${Posts} title="Posts that match from then on" posts=${proposal.new_matches} />
    <${Posts} title="Posts that no longer match" posts=${proposal.lost_matches} />`;
}

function Posts({ title, posts }) {
  if (!posts.length) return null;
  const row = (post) =>
    html`<li><span class="quiet">${score(post.score)}</span> ${quoted(post.text)}</li>`;
  return html`<h4>${title}</h4><ul>${posts.map(row)}</ul>`;
}

function Words({ creation: { gained, lost } }) {
  if (!gained.length && !lost.length) return paragraph("quiet", "No words moved.");
  const most = Math.max(1e-6, ...[...gained, ...lost].map(([, change]) => Math.abs(change)));
  const row = ([word, change]) => {
    const size = Math.abs(change);
    const sign = size < 0.0005 ? "" : change > 0 ? "+" : "−";
    return html`<li>${quoted(word)}
      ${" "}<span class="quiet">${sign}${size.toFixed(3)}</span>
      <span class="size" style=${{ width: `${(100 * size) / most}%` }}></span></li>`;
  };
  const list = (kind, words) =>
    words.length > 0 &&
    html`<section><h3>Words that ${kind}</h3>
      <ul class=${`plain moved ${kind}`}>${words.map(row)}</ul></section>`;
  return html`<div class="moves">${list("gained", gained)}${list("lost", lost)}</div>`;
}

// How a profile was made.
function Creation({ creation: { method, at, by, beta, cohesion, labels, posts } }) {
  const agreement = cohesion ? `; they agree by ${cohesion.toFixed(2)}` : "";
  const rows = [
    method && ["Made of", method],
    at && ["When", html`<${Time} at=${at} />`],
    by && ["By", html`<bdi>${by}</bdi>`],
    beta > 0 && ["Weight of the best posts", `${beta.toFixed(2)} of 1${agreement}`],
    labels > 0 && ["Labels", number(labels)],
  ];
  const post = ([platform, id]) => html`<li><bdi class="quoted">${platform} ${id}</bdi></li>`;
  const sources = html`<details><summary>It learned from ${plural(posts.length, "post")}</summary>
    <ul>${posts.map(post)}</ul></details>`;
  return html`<${Facts} rows=${rows} />${posts.length > 0 && sources}`;
}
