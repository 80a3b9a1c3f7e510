// Judging an event's posts by keys, its promise, and the agreement of judges.
import { html, useEffect, useState } from "/vendor/preact.js";
import { useAnswer, userName } from "/lib/api.js";
import { Attachments, Button, ErrorText, eventAddress, ExternalLink } from "/lib/ui.js";
import { HighlightedText, isMissing, LoadingText, LoadStatus, number, paragraph, percent } from "/lib/ui.js";
import { plural, score, Table, Time, useKeys } from "/lib/ui.js";
import { Promises } from "/pages/event/promise.js";
import { useQueue } from "/pages/event/queue.js";

const KINDS = {
  certify: ["Drawn at random", "shows how many matches are right, and from which threshold on"],
  learn: ["Around the threshold", "with near misses, for training; certifies nothing"],
};
const ANSWERS = [
  ["y", "on", "On the event"],
  ["n", "off", "Off"],
  ["u", "unsure", "Unsure"],
];
const name = (text) => html`<bdi>${text}</bdi>`;
const COUNTS = ["on", "off", "unsure", "certify", "learn", "count", "given"];
const COUNT_HEADS = ["Person", "#on", "#off", "#unsure", "#at random", "#to learn", "#to count", "#imported"];

export default function Judge({ event, session }) {
  const [kind, setKind] = useState("certify");
  const [post, setPost] = useState(null); // A post that is judged again.
  const by = userName();
  useEffect(() => setPost(null), [event, kind, by]);
  const judgeAgain = (next) => {
    setPost(next);
    document.querySelector(".kinds")?.scrollIntoView({ block: "start" });
  };
  const nameless = html`<p class="quiet">You judge as <b>somebody</b>: give your name above, so that
    two people can be told apart.</p>`;
  const when = session.is_file ? "the file" : "the last 24 hours";
  const queue = html`${by === "somebody" && nameless}
    <${Kinds} kind=${kind} choose=${setKind} />
    <${Queue} key=${JSON.stringify([event, kind, by])} event=${event} kind=${kind} by=${by}
      when=${when} again=${post} leave=${() => setPost(null)} />`;
  const readOnlyText = html`<p class="refused">This desk only shows; open one that may change
    things to judge.</p>`;
  return html`<div class="judging"><div>${session.read_only ? readOnlyText : queue}</div>
    <${Promises} event=${event} session=${session} />
    <${Judges} event=${event} by=${by} judgeAgain=${session.read_only ? null : judgeAgain} />
  </div>`;
}

function Kinds({ kind, choose }) {
  const choice = ([name, [title, purpose]]) =>
    html`<label key=${name}>
      <input type="radio" name="kind" checked=${kind === name} onChange=${() => choose(name)} />
      <span>${title} <small class="quiet">${purpose}</small></span></label>`;
  return html`<fieldset class="kinds" aria-label="Which posts are asked about">
    ${Object.entries(KINDS).map(choice)}</fieldset>`;
}

function Queue({ event, kind, by, when, again, leave }) {
  const queue = useQueue(event, kind, by);
  const { state } = queue;
  const post = again ?? queue.question;
  const judge = (verdict) => {
    if (!again) return queue.answer(verdict);
    queue.correct(again, verdict);
    leave();
  };
  const undo = (press) => press.repeat || queue.undo();
  const keys = { z: undo, Z: undo, ...(again && { Escape: leave }) };
  for (const [key, verdict] of ANSWERS) {
    keys[key] = keys[key.toUpperCase()] = (press) => post && !press.repeat && judge(verdict);
  }
  useKeys(keys);
  if (queue.error && !state) {
    return html`<${ErrorText} error=${queue.error} />
      <${Button} run=${queue.refresh}>Try again<//>`;
  }
  if (!state) return html`<${LoadingText} what=${`Drawing from the matches of ${when}`} />`;
  const last = state.undo ? ` (${state.undo.label})` : "";
  const repeat = html`<p class="row"><b>Judge again</b> what you called ${again?.yours}
    <${Button} run=${leave}>Leave it <kbd>Esc</kbd><//></p>`;
  return html`<section aria-label="Posts to judge">
    <${LoadStatus} answer=${state} error=${queue.error} />
    <${Progress} queue=${queue} />
    ${queue.missed.map((entry) => html`<${Missed} queue=${queue} entry=${entry} />`)}
    ${again && repeat}
    ${post && html`<${Card} post=${post} judge=${judge} />`}
    ${post === null && html`<${NoQuestion} queue=${queue} when=${when} />`}
    ${post === undefined && html`<${LoadingText} what="Saving" />`}
    <div class="row">
      <${Button} run=${queue.undo} disabled=${!state.undo && !queue.waiting}>
        <kbd>z</kbd> Undo${last}<//>
      <span class="quiet">${plural(state.matches, "match", "matches")} of ${when}, drawn
        ${" "}<${Time} at=${state.at} /></span>
      ${!state.empty && post && html`<${Button} run=${queue.redraw}>Draw again<//>`}</div>
  </section>`;
}

const CURVE_WIDTH = 160;
const CURVE_HEIGHT = 28;

// The share on the event after each label, in the order of their times.
function Shares({ shares }) {
  if (shares.length < 2) return null;
  const step = CURVE_WIDTH / (shares.length - 1);
  const points = shares.map((share, n) => {
    const y = 1 + (1 - share) * (CURVE_HEIGHT - 2);
    return `${(n * step).toFixed(1)},${y.toFixed(1)}`;
  });
  const label = `${percent(shares.at(-1))} of your ${plural(shares.length, "label")} on the event`;
  return html`<svg class="shares" role="img" aria-label=${label} width=${CURVE_WIDTH}
    height=${CURVE_HEIGHT} viewBox=${`0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`}>
    <path d=${`M${points.join("L")}`} /></svg>`;
}

function Progress({ queue }) {
  const { state, waiting, unsaved, problem } = queue;
  const done = state.judged;
  const saved = problem ? "" : waiting ? "saving …" : state.change ? "saved" : "";
  const failure = html`${plural(unsaved, "answer is", "answers are")} kept on this page and tried
    again: ${problem} <${Button} run=${queue.retry}>Try now<//>`;
  return html`<div class="progress">
    ${paragraph("refused", state.why && `A new queue: ${state.why}.`, "status")}
    ${state.messages.map((line) => paragraph("quiet", line))}
    <p class="row"><progress value=${done} max=${done + state.left || 1}
        aria-label="labels given, of those that are to give"></progress>
      <strong>${state.progress.map((line) => html`<span class="fact">${line}</span>`)}</strong>
      <span class="quiet">${plural(done, "label")} of yours</span>
      <${Shares} shares=${state.shares} />
      <span class="saved" role="status">${saved}</span></p>
    ${paragraph("refused", problem && failure, "alert")}</div>`;
}

function Missed({ queue, entry: { verdict, text, why, other }, entry }) {
  const correct = () => {
    queue.correct(entry, verdict);
    queue.dismiss(entry);
  };
  const what = verdict ? html`<b>${verdict}</b> for “<bdi>${text}</bdi>”` : "that";
  return html`<div class="refused row" role="alert"><span>Not saved: ${what}: ${why}.</span>
    ${other && html`<${Button} run=${correct}>Make it ${verdict}<//>`}
    <${Button} run=${() => queue.dismiss(entry)}>Dismiss<//></div>`;
}

function NoQuestion({ queue: { state, redraw }, when }) {
  if (state.empty) {
    return html`<div class="card"><p>Nothing to ask about: no post of ${when} has matched.
      This page looks again by itself.</p></div>`;
  }
  return html`<div class="card">
    <p>You have judged what can be asked about these matches: ${state.progress.join("; ")}.</p>
    <${Button} run=${redraw}>Draw again, from the present matches<//></div>`;
}

function Card({ post, judge }) {
  const isNear = isMissing(post.threshold);
  // The second click of a double click would answer a post that nobody has read.
  const button = ([key, verdict, title]) =>
    html`<button type="button" key=${verdict} class=${verdict} aria-keyshortcuts=${key}
      onClick=${(event) => event.detail < 2 && judge(verdict)}>${title} <kbd>${key}</kbd></button>`;
  const words = post.why?.map(([word, part]) => [name(word || "the rest"), score(part)]);
  const details = html`<details><summary>Details</summary><${Table} name="Why it matched"
    caption="Why it matched" kind="why" heads=${["Word", "#Part"]} rows=${words} /></details>`;
  const limit = isNear ? "a near miss, below the threshold" : `threshold ${score(post.threshold)}`;
  return html`<article class="card post">
    <p class="row quiet from">
      ${post.platform !== "plain" && html`<span class="badge">${post.platform}</span>`}
      ${post.author && html`<bdi>${post.author}</bdi>`}<${Time} at=${post.created_at} />
      ${post.url && html`<${ExternalLink} href=${post.url}>Open the post<//>`}</p>
    <p class="words" dir="auto" tabindex="0" aria-live="polite" aria-atomic="true">
      <${HighlightedText} text=${post.text} why=${post.why} /></p>
    <${Attachments} post=${post} />
    <p>Score <b>${score(post.score)}</b> <span class="quiet">${limit}</span></p>
    <div class="answers" role="group" aria-label="Is it on the event?">${ANSWERS.map(button)}</div>
    ${words?.length > 0 && details}</article>`;
}

function Judges({ event, by, judgeAgain }) {
  const [data, error] = useAnswer("/api/judge/judges", { event }, ["labels"]);
  const noLabels = "No label yet. The first answer makes the topic of labels, if there is none.";
  return html`<section><h2>Who judged</h2><${ErrorText} error=${error} />
    ${paragraph("quiet", data?.counts.length === 0 && noLabels)}
    ${data?.counts.length > 0 && html`<${Labels} data=${data} by=${by} judgeAgain=${judgeAgain} />`}
    <p><a href=${eventAddress(event)}>Save the matches with the labels</a>, on their page</p>
  </section>`;
}

function Labels({ data, by, judgeAgain }) {
  const { counts, people, pairs, error, disputed, all_disputed: all } = data;
  const rows = counts.map((row) => [name(row.by), ...COUNTS.map((key) => number(row[key]))]);
  const agreements = pairs.map((pair) => [
    name(pair.judge_a),
    name(pair.judge_b),
    number(pair.posts),
    pair.agreement.toFixed(2),
    pair.kappa === null ? "–" : pair.kappa.toFixed(2),
  ]);
  const disputedPost = (post) =>
    html`<${Disputed} key=${`${post.platform} ${post.id}`} post=${post} by=${by}
      judgeAgain=${judgeAgain} />`;
  const agreement = html`<${Table} name="How far two agree" rows=${agreements}
    caption="How far two agree: κ is 1 where always, 0 where by chance alone"
    heads=${["One", "Other", "#Posts", "#Same", "#κ"]} />`;
  const noPairs = `No two people have judged the same post yet. Two who judge the same fifty show
    what the labels are worth.`;
  const differences = html`<h3>${plural(all, "post")} on which they differ</h3>
    <ul class="disputed">${disputed.map(disputedPost)}</ul>`;
  return html`<${Table} name="Labels by person" caption="Labels by person" heads=${COUNT_HEADS}
      rows=${rows} />
    ${paragraph("quiet", people > counts.length && `and ${number(people - counts.length)} more`)}
    ${pairs.length > 0 ? agreement : paragraph("quiet", noPairs)}
    ${paragraph("refused", error && `These may be old: ${error}`)}
    ${disputed.length > 0 && differences}`;
}

function Disputed({ post, by, judgeAgain }) {
  const yours = post.labels.find((each) => each.by === by)?.label;
  const label = (each) => html`<span class="badge">${name(each.by)}: ${each.label}</span>`;
  const again = () => judgeAgain({ ...post, yours });
  return html`<li class="card"><p class="row">${post.labels.map(label)}</p>
    <p class="quoted">${post.text}</p>
    <p class="row">${post.url && html`<${ExternalLink} href=${post.url}>Open the post<//>`}
      ${yours && judgeAgain && html`<${Button} run=${again}>Judge again<//>`}</p></li>`;
}
