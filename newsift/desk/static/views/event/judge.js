// Judging an event's posts: one at a time by keys, what that shows, and who agrees with whom.
import { html, useEffect, useState } from "/vendor/preact.js";
import { whoami } from "/lib/api.js";
import { Card } from "/views/event/judge/card.js";
import { Judges } from "/views/event/judge/judges.js";
import { Promised } from "/views/event/judge/promised.js";
import { useAsking } from "/views/event/judge/asking.js";
import { Do, plural, Refused, Time, useKeys, Waiting } from "/lib/ui.js";

const KINDS = {
  certify: ["Drawn at random", "shows how many matches are right, and from which threshold on"],
  learn: ["Around the threshold", "with near misses, for the profile to learn from; certifies nothing"],
};
const KEYS = { y: "on", n: "off", u: "unsure" };

function Kinds({ kind, choose }) {
  return html`<fieldset class="kinds" aria-label="Which posts are asked about">
    ${Object.entries(KINDS).map(([name, [title, what]]) => html`<label key=${name}>
      <input type="radio" name="kind" checked=${kind === name} onChange=${() => choose(name)} />
      <span>${title} <small class="quiet">${what}</small></span>
    </label>`)}
  </fieldset>`;
}

// What stands above the post: how the queue came about, and how far it is.
function Progress({ asked }) {
  const { state, waiting, unsaved } = asked;
  const done = state.judged, all = done + state.left;
  return html`<div class="progress">
    ${state.why && html`<p class="refused" role="status">A new queue: ${state.why}.</p>`}
    ${state.told.map((line) => html`<p class="quiet">${line}</p>`)}
    <p class="row"><progress value=${done} max=${all || 1} aria-label="labels given, of those that are to give"></progress>
      <strong>${state.progress}</strong>
      <span class="quiet">${plural(done, "label")} of yours</span>
      <span class="saved" role="status">${unsaved.trouble ? "" : waiting ? "saving …" : state.turn ? "saved" : ""}</span></p>
    ${unsaved.trouble && html`<p class="refused" role="alert">${plural(unsaved.items.length, "answer is", "answers are")} kept on this page and tried again: ${unsaved.trouble}
      <${Do} run=${unsaved.again}>Try now<//></p>`}
  </div>`;
}

function Nothing({ asked }) {
  const { state } = asked;
  return html`<div class="card">
    ${state.empty
      ? html`<p>Nothing to ask about yet: no post of the last 24 hours has matched. This page looks again by itself.</p>`
      : html`<p>You have judged what can be asked about these matches: ${state.progress}.</p>`}
    ${!state.empty && html`<${Do} run=${asked.anew}>Draw anew, from the matches by now<//>`}
  </div>`;
}

function Missed({ asked }) {
  return asked.missed.map((one) => html`<div class="refused row" role="alert">
    <span>Not saved: ${one.verdict ? html`<b>${one.verdict}</b> for “<bdi>${one.text}</bdi>”` : "that"}: ${one.why}.</span>
    ${one.verdict && one.why.includes("was answered") && html`<${Do} run=${() => (asked.correct(one, one.verdict), asked.forget(one))}>Make it ${one.verdict}<//>`}
    <${Do} run=${() => asked.forget(one)}>Dismiss<//>
  </div>`);
}

function Asking({ event, kind, by, again, judged }) {
  const asked = useAsking(event, kind, by);
  const { state, question } = asked;
  const post = again ?? question;
  const says = (verdict) => {
    if (!again) return asked.answer(verdict);
    asked.correct(again, verdict);
    judged();
  };
  const takeBack = (event) => event.repeat || asked.undo();
  const presses = Object.entries(KEYS).flatMap(([key, verdict]) => [key, key.toUpperCase()].map((each) => [each, (event) => post && !event.repeat && says(verdict)]));
  useKeys({ ...Object.fromEntries(presses), z: takeBack, Z: takeBack, ...(again && { Escape: judged }) });
  if (asked.refused && !state) return html`<${Refused} error=${asked.refused} /><${Do} run=${asked.again}>Try again<//>`;
  if (!state) return html`<${Waiting} what="Drawing from the matches of the last 24 hours" />`;
  return html`<section aria-label="Posts to judge">
    <${Progress} asked=${asked} />
    <${Missed} asked=${asked} />
    ${again && html`<p class="row"><b>Judge again</b> what you called ${again.yours} <${Do} run=${judged}>Leave it <kbd>Esc</kbd><//></p>`}
    ${post ? html`<${Card} post=${post} says=${says} />` : post === null ? html`<${Nothing} asked=${asked} />` : html`<${Waiting} what="Saving" />`}
    <div class="row"><${Do} run=${asked.undo} disabled=${!state.undo && !asked.waiting}><kbd>z</kbd> Undo${state.undo ? ` (${state.undo.label})` : ""}<//>
      <span class="quiet">${plural(state.matches, "match", "matches")} of 24 hours, frozen <${Time} at=${state.at} /></span>
      ${!state.empty && post && html`<${Do} run=${asked.anew}>Draw anew<//>`}</div>
  </section>`;
}

export default function Judge({ event, session }) {
  const [kind, choose] = useState("certify");
  const [again, judge] = useState(null);
  const by = whoami();
  useEffect(() => judge(null), [event, kind, by]);
  const judgeAgain = (post) => {
    judge(post);
    document.querySelector(".kinds")?.scrollIntoView({ block: "start" });
  };
  return html`<div class="judging"><div>
    ${session.read_only
      ? html`<p class="refused">This desk only shows; open one that may change things to judge.</p>`
      : html`${by === "somebody" && html`<p class="quiet">You judge as <b>somebody</b>: give your name above, so that two people can be told apart.</p>`}
        <${Kinds} kind=${kind} choose=${choose} />
        <${Asking} key=${JSON.stringify([event, kind, by])} event=${event} kind=${kind} by=${by} again=${again} judged=${() => judge(null)} />`}
    </div><${Promised} event=${event} session=${session} />
    <${Judges} event=${event} by=${by} judgeAgain=${session.read_only ? null : judgeAgain} />
  </div>`;
}
