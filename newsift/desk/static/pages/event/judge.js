// Judging in four steps: what the event is, what is to be proven, the posts, and what labels prove.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { useAnswer, useLatest, userName } from "/lib/api.js";
import { Attachments, Button, ErrorText, eventAddress, ExternalLink, Field } from "/lib/ui.js";
import { HighlightedText, isMissing, LoadingText, LoadStatus, number, paragraph, percent } from "/lib/ui.js";
import { perform, plural, quoted, score, Select, Step, Table, Time, useKeys, useWide } from "/lib/ui.js";
import { Goal, Proof } from "/pages/event/promise.js";
import { useQueue } from "/pages/event/queue.js";

const TEST_REFRESH_MS = 2000;
const KINDS = {
  certify: ["Matches drawn at random", "prove how many are on the event"],
  learn: ["Posts around the threshold", "teach the event its limits; they prove nothing"],
  count: ["Posts drawn for a count", "say how many posts are on the event, day by day"],
  any: ["All posts of the file, at random", "measure how many of the event’s posts match"],
};
const DRAWS = [40, 100, 200, 400].map((labels) => [labels, plural(labels, "post")]);
const WINDOWS = [1, 3, 7, 14, 31].map((days) => [days, days === 1 ? "24 hours" : `${days} days`]);
const ANSWERS = [
  ["y", "on", "On the event"],
  ["n", "off", "Off"],
  ["u", "unsure", "Unsure"],
];
const name = (text) => html`<bdi>${text}</bdi>`;
const COUNTS = ["on", "off", "unsure", "certify", "learn", "count", "any", "given"];
const COUNT_HEADS = ["Person", "#on", "#off", "#unsure", "#at random", "#to learn", "#to count", "#of all", "#imported"];

const goals = new Map(); // Chosen in this tab; once a label was given for one, labels keep it.

export default function Judge({ event, session, articles, note }) {
  const [kind, setKind] = useState("certify");
  const [post, setPost] = useState(null); // A post that is judged again.
  const goalKey = JSON.stringify([session.project, event]);
  const [goal, setGoal] = useState(goals.get(goalKey) ?? null);
  const chooseGoal = (next) => {
    goals.set(goalKey, next);
    setGoal(next);
  };
  const [plan, setPlan] = useState({ labels: 100, days: 1 }); // Of a new draw for a count.
  const by = userName();
  const question = { event, precision: goal?.[0], confidence: goal?.[1] };
  const parts = ["labels", "seeds"];
  const answer = useAnswer("/api/judge/promise-test", question, parts, TEST_REFRESH_MS);
  const [latest, error, again] = answer;
  const last = useRef(); // It stays while another goal is asked for, so that nothing loses the focus.
  const test = (last.current = latest ?? last.current);
  const [queueState, setQueueState] = useState(null); // The last one, while another queue is drawn.
  const [begun, setBegun] = useState(null); // By whom of which event there are labels.
  const asked = useRef(); // The goal of the queue, also while another one is drawn.
  if (queueState?.goal) asked.current = queueState.goal;
  const who = JSON.stringify([event, by]);
  useEffect(() => void (queueState?.judged > 0 && setBegun(who)), [queueState]);
  useEffect(() => {
    setPost(null);
    setQueueState(null);
  }, [event, kind, by]);
  const judgeAgain = (next) => {
    setPost(next);
    document.querySelector(".kinds")?.scrollIntoView({ block: "start" });
  };
  const nameless = html`<p class="quiet">You judge as <b>somebody</b>: give your name above, so that
    two people can be told apart.</p>`;
  const isCount = kind === "count";
  const days = WINDOWS.find(([each]) => isCount && each === plan.days) ?? WINDOWS[0];
  const when = session.is_file ? "the file" : `the last ${days[1]}`;
  const planned = isCount ? plan : undefined;
  const choice = html`<${Plan} plan=${plan} choose=${setPlan} isFile=${session.is_file} />`;
  const judged = queueState && `${plural(queueState.judged, "label")} of yours`;
  const queue = html`<${JudgeStep} state=${judged}>${by === "somebody" && nameless}
    <${Kinds} kind=${kind} choose=${setKind} isFile=${session.is_file} />
    ${isCount && queueState && !queueState.is_fixed && choice}
    <${Queue} key=${JSON.stringify([event, kind, by, goal, planned])} event=${event} kind=${kind}
      by=${by} goal=${goal} plan=${planned} when=${when} isFile=${session.is_file} report=${setQueueState}
      again=${post} leave=${() => setPost(null)} /><//>`;
  const readOnlyText = html`<${JudgeStep}><p class="refused">This desk only shows; open one that may
    change things to judge.</p><//>`;
  const isBegun = begun === who;
  return html`<div class=${isBegun ? "judging begun" : "judging"}>
    <div><${About} event=${event} articles=${articles} note=${note} isBegun=${test?.result?.labels > 0}
        isDone=${isBegun} session=${session} />
      <${Goal} event=${event} test=${test} error=${error} goal=${goal} asked=${asked.current}
        choose=${chooseGoal} isDone=${isBegun} session=${session} /></div>
    <div>${session.read_only ? readOnlyText : queue}
      ${test?.profile && html`<${Proof} event=${event} test=${test} again=${again} session=${session} />`}
      <${Judges} event=${event} by=${by} judgeAgain=${session.read_only ? null : judgeAgain} /></div>
  </div>`;
}

// The articles, folded on a phone, beside the posts on a wide screen.
function About({ event, articles, note, isBegun, isDone, session }) {
  const isWide = useWide();
  const article = ({ id, title }, n) =>
    html`<${Article} key=${id} id=${id} title=${title} isOpen=${isWide && n === 0} />`;
  const advice = `Decide before you judge what counts as on the event: a joke, a rumour, an appeal for
    donations? Two people who judge should decide the same.`;
  return html`<${Step} number="1" title="What is the event?"
      state=${articles && plural(articles.length, "article")} isDone=${isDone}>
    ${articles?.map(article)}
    ${paragraph("quiet", !isBegun && !note && advice)}
    ${articles && html`<${Note} key=${event} event=${event} note=${note} session=${session} />`}<//>`;
}

const noteDrafts = new Map(); // They outlive a look at another page.

// What counts as on, which all who judge the event share.
function Note({ event, note, session }) {
  const key = JSON.stringify([session.project, event]);
  // What is typed, and when the note was written before.
  const draft = useLatest("newsift-note", () => noteDrafts.get(key));
  const setDraft = (next) => {
    noteDrafts.set(key, next);
    dispatchEvent(new Event("newsift-note"));
  };
  const seen = note?.at ?? "";
  const save = async () => {
    const question = { event, note: draft.text, seen: draft.seen };
    const done = await perform("/api/judge/note", question, "the note is saved");
    if (done !== undefined) setDraft(null);
  };
  const title = note ? "Change it" : "Write down what counts as on";
  const begin = html`<${Button} run=${() => setDraft({ text: note?.text ?? "", seen })}>${title}<//>`;
  const written = note && html`<h3>What counts as on</h3>
    <p>${quoted(note.text)}</p>
    <p class="quiet">${name(note.by)}, <${Time} at=${note.at} /></p>`;
  if (!draft) return html`${written}${!session.read_only && html`<p>${begin}</p>`}`;
  const changed = html`Somebody has changed it since you began: “${quoted(note?.text ?? "")}”
    ${" "}<${Button} run=${() => setDraft({ ...draft, seen })}>Save mine all the same<//>`;
  return html`<form class="form" onSubmit=${(submit) => submit.preventDefault()}>
    <${Field} label="What counts as on" note="everybody who judges this event reads it here">
      <textarea rows="5" maxlength="4000" dir="auto" value=${draft.text}
        onInput=${({ target }) => setDraft({ ...draft, text: target.value })}></textarea><//>
    ${paragraph("refused", draft.seen !== seen && changed, "alert")}
    <p class="row"><${Button} kind="main" run=${save}>Save<//>
      <${Button} run=${() => setDraft(null)}>Leave it<//></p></form>`;
}

function Article({ id, title, isOpen }) {
  const [open, setOpen] = useState(isOpen);
  return html`<details open=${open} onToggle=${({ target }) => setOpen(target.open)}>
    <summary>${quoted(title)}</summary>${open && html`<${ArticleText} id=${id} />`}</details>`;
}

function ArticleText({ id }) {
  const [row, error] = useAnswer("/api/seed", { id }, ["seeds"]);
  return html`<${LoadStatus} answer=${row} error=${error} />
    <div class="article" tabindex="0" role="region" aria-label="Article" dir="auto">
      ${quoted(row?.text ?? "")}</div>`;
}

function Kinds({ kind, choose, isFile }) {
  const choice = ([name, [title, purpose]]) =>
    html`<label key=${name}>
      <input type="radio" name="kind" checked=${kind === name} onChange=${() => choose(name)} />
      <span>${title} <small class="quiet">${purpose}</small></span></label>`;
  return html`<fieldset class="kinds" aria-label="Which posts are asked about">
    ${Object.entries(KINDS).filter(([name]) => isFile || name !== "any").map(choice)}</fieldset>`;
}

// What a draw for a count is of: to be chosen until somebody has answered.
function Plan({ plan, choose, isFile }) {
  const set = (name) => (text) => choose({ ...plan, [name]: +text });
  const span = html`<${Select} label="of the last" options=${WINDOWS} value=${plan.days}
    set=${set("days")} />`;
  return html`<p class="row"><${Select} label="Draw" options=${DRAWS} value=${plan.labels}
      set=${set("labels")} /> ${isFile ? "of the file" : span}</p>
    <p class="quiet">With the first answer the posts and their number are fixed, and the same for
      everybody. Label all of them.</p>`;
}

const JudgeStep = ({ state, children }) =>
  html`<${Step} number="3" title="Judge posts" state=${state}>${children}<//>`;

function Queue({ event, kind, by, goal, plan, when, isFile, report, again, leave }) {
  const queue = useQueue(event, kind, by, goal, plan);
  const { state } = queue;
  useEffect(() => state && report(state), [state]);
  const post = again ?? queue.question;
  const asked = useRef(); // It stays while answers are saved, and its buttons do nothing.
  if (queue.question !== undefined) asked.current = queue.question;
  const shown = post === undefined ? asked.current : post;
  const judge = (verdict) => {
    if (!again) return queue.answer(verdict);
    queue.correct(again, verdict);
    leave();
  };
  const undo = (press) => press.repeat || queue.undo();
  const keys = { z: undo, ...(again && { Escape: leave }) };
  for (const [key, verdict] of ANSWERS) {
    keys[key] = (press) => post && !press.repeat && judge(verdict);
  }
  useKeys(keys);
  if (queue.error && !state) {
    return html`<${ErrorText} error=${queue.error} />
      <${Button} run=${queue.refresh}>Try again<//>`;
  }
  if (!state) {
    return html`<${LoadingText} what=${`Drawing from the ${kind === "any" ? "posts" : "matches"} of ${when}`} />`;
  }
  const last = state.undo ? ` (${state.undo.label})` : "";
  const what = html`${kind === "any" ? "Posts" : plural(state.matches, "match", "matches")} of ${when}, drawn
    ${" "}<${Time} at=${state.at} />`;
  const repeat = html`<p class="row"><b>Judge again</b> what you called ${again?.yours}
    <${Button} run=${leave}>Leave it <kbd>Esc</kbd><//></p>`;
  return html`<${LoadStatus} answer=${state} error=${queue.error} />
    <${Progress} queue=${queue} />
    ${queue.missed.map((entry) => html`<${Missed} queue=${queue} entry=${entry} event=${event} by=${by} />`)}
    ${again && repeat}
    ${shown && html`<${Card} post=${shown} judge=${judge} />`}
    ${post === null && html`<${NoQuestion} queue=${queue} when=${when} event=${plan && event} />`}
    ${post === undefined && html`<${LoadingText} what="Saving" />`}
    <div class="row">
      <${Button} run=${queue.undo} disabled=${!state.undo && !queue.waiting}>
        <kbd>z</kbd> Undo${last}<//>
      <span class="quiet">${!plan && what}</span>
      ${!state.empty && post && !plan &&
        html`<${Button} run=${queue.redraw} title=${kind === "certify" && !isFile && ANOTHER_TEST}>Draw again<//>`}</div>`;
}

const ANOTHER_TEST = "Newer matches are another test: a promise then takes more labels.";
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
      <${Shares} shares=${state.shares} />
      <span class="saved" role="status">${saved}</span></p>
    <${Lines} lines=${state.progress} />
    ${paragraph("refused", problem && failure, "alert")}</div>`;
}

const Lines = ({ lines }) =>
  html`<ul class="plain lines">${lines.map((line) => html`<li>${line}</li>`)}</ul>`;

function Missed({ queue, entry: { verdict, text, why, other }, entry, event, by }) {
  const correct = () => {
    queue.correctMissed(entry);
    queue.dismiss(entry);
  };
  const what = verdict ? html`<b>${verdict}</b> for “<bdi>${text}</bdi>”` : "that";
  const of = entry.event !== event && html`, of the event ${name(entry.event)}`;
  const as = entry.by !== by && html`, by ${name(entry.by)}`;
  return html`<div class="refused row" role="alert"><span>Not saved: ${what}${of}${as}: ${why}.</span>
    ${other && html`<${Button} run=${correct}>Make it ${verdict}<//>`}
    <${Button} run=${() => queue.dismiss(entry)}>Dismiss<//></div>`;
}

// `event` is that of a count.
function NoQuestion({ queue: { state, redraw }, when, event }) {
  if (state.empty) {
    return html`<div class="card"><p>Nothing to ask about: no post of ${when} has matched.
      This page looks again by itself.</p></div>`;
  }
  if (event) {
    return html`<div class="card"><p>You have labelled all that was drawn. What they say is on the page
      ${" "}<a href=${eventAddress(event, "scores")}>Scores</a>.</p>
      <${Button} run=${redraw}>Begin another draw<//></div>`;
  }
  return html`<div class="card"><p>You have judged all that can be asked about these posts.</p>
    <${Button} run=${redraw}>Draw again, from the present matches<//></div>`;
}

function Card({ post, judge }) {
  // The second click of a double click, or a key that is held, would answer a post that nobody has read.
  const button = ([key, verdict, title]) =>
    html`<button type="button" key=${verdict} class=${verdict} aria-keyshortcuts=${key}
      onClick=${(event) => event.detail < 2 && judge(verdict)}>${title} <kbd>${key}</kbd></button>`;
  const words = post.why?.map(([word, part]) => [name(word || "the rest"), score(part)]);
  const details = html`<details><summary>Why it matched</summary><${Table} name="Why it matched"
    kind="why" heads=${["Word", "#Part of the score"]} rows=${words} /></details>`;
  const isBlind = isMissing(post.score);
  const near = post.yours ? "" : "; just below the threshold"; // An old label may be of any score.
  const limit = isMissing(post.threshold) ? near : `; ${score(post.threshold)} has to be reached`;
  return html`<article class="card post">
    <p class="row quiet from">
      ${post.platform !== "plain" && html`<span class="badge">${post.platform}</span>`}
      ${post.author && html`<bdi>${post.author}</bdi>`}<${Time} at=${post.created_at} />
      ${post.url && html`<${ExternalLink} href=${post.url}>Open the post<//>`}</p>
    <p class="words" dir="auto" tabindex="0" aria-live="polite" aria-atomic="true">
      <${HighlightedText} text=${post.text} why=${post.why} /></p>
    <${Attachments} post=${post} />
    ${paragraph("quiet", post.is_deleted && "It was deleted, so nobody can be sure: press u.")}
    <div class="answers" role="group" aria-label="Is it on the event?"
      onKeyDown=${(key) => key.repeat && key.preventDefault()}>${ANSWERS.map(button)}</div>
    <p class="quiet">${isBlind ? "Whether it matches is not shown." : `Score ${score(post.score)}${limit}`}</p>
    ${words?.length > 0 && details}</article>`;
}

function Judges({ event, by, judgeAgain }) {
  const [data, error] = useAnswer("/api/judge/judges", { event }, ["labels"]);
  return html`<section class="step"><h2>Who judged</h2><${ErrorText} error=${error} />
    ${paragraph("quiet", data?.counts.length === 0 && "Nobody yet.")}
    ${data?.counts.length > 0 && html`<${Labels} data=${data} by=${by} judgeAgain=${judgeAgain} />`}
    <p><a href=${eventAddress(event)}>Save the matches with the labels</a>, on their page</p>
  </section>`;
}

function Labels({ data, by, judgeAgain }) {
  const { counts, people, pairs, error, disputed, all_disputed: all } = data;
  const rows = counts.map((row) => [name(row.by), ...COUNTS.map((key) => number(row[key]))]);
  const pair = ({ judge_a: one, judge_b: other, posts, agreement, kappa }) =>
    html`<li>${name(one)} and ${name(other)}: the same for ${number(Math.round(agreement * posts))}
      ${" "}of ${plural(posts, "post")} (${percent(agreement)})
      ${!isMissing(kappa) && html`<span class="quiet" title="1: always the same; 0: as by chance">,
        κ ${kappa.toFixed(2)}</span>`}</li>`;
  const disputedPost = (post) =>
    html`<${Disputed} key=${`${post.platform} ${post.id}`} post=${post} by=${by}
      judgeAgain=${judgeAgain} />`;
  const noPairs = `No two people have judged the same post yet. Two who judge the same fifty show
    what the labels are worth.`;
  const differences = html`<h3>${plural(all, "post")} on which they differ</h3>
    <ul class="disputed">${disputed.map(disputedPost)}</ul>`;
  return html`<${Table} name="Labels by person" caption="Labels by person" heads=${COUNT_HEADS}
      rows=${rows} />
    ${paragraph("quiet", people > counts.length && `and ${number(people - counts.length)} more`)}
    ${pairs.length > 0 ? html`<ul class="plain">${pairs.map(pair)}</ul>` : paragraph("quiet", noPairs)}
    ${paragraph("refused", error && `These may be old: ${error}`)}
    ${disputed.length > 0 && differences}`;
}

function Disputed({ post, by, judgeAgain }) {
  const yours = post.labels.find((each) => each.by === by)?.label;
  const label = (each) => html`<span class="badge">${name(each.by)}: ${each.label}</span>`;
  const again = () => judgeAgain({ ...post, yours });
  return html`<li class="card"><p class="row">${post.labels.map(label)}</p>
    <p>${quoted(post.text)}</p>
    <p class="row">${post.url && html`<${ExternalLink} href=${post.url}>Open the post<//>`}
      ${yours && judgeAgain && html`<${Button} run=${again}>Judge again<//>`}</p></li>`;
}
