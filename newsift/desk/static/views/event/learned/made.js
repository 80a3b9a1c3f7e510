// How a profile was made: the words that gained and lost, and what it was made of.
import { html } from "/vendor/preact.js";
import { number, plural, score, Time } from "/lib/ui.js";

export const cuts = (ends) => (!ends.length ? "–" : ends[1] > ends[0] ? `${score(ends[0])} to ${score(ends[1])}` : score(ends[0]));

function List({ title, words, most, kind }) {
  if (!words.length) return null;
  return html`<section><h3>${title}</h3><ul class=${`plain moved ${kind}`}>${words.map(([word, move]) => html`<li>
    <span class="said">${word}</span> <span class="quiet">${move > 0 ? "+" : "−"}${Math.abs(move).toFixed(3)}</span>
    <span class="size" style=${{ width: `${(100 * Math.abs(move)) / most}%` }}></span></li>`)}</ul></section>`;
}

export function Words({ made }) {
  const most = Math.max(1e-6, ...[...made.gained, ...made.lost].map(([, move]) => Math.abs(move)));
  if (!made.gained.length && !made.lost.length) return html`<p class="quiet">No words moved.</p>`;
  return html`<div class="moves"><${List} title="Words that gained" words=${made.gained} most=${most} kind="gained" /><${List} title="Words that lost" words=${made.lost} most=${most} kind="lost" /></div>`;
}

export function Made({ made }) {
  const said = [
    made.method && ["Made of", made.method],
    made.at && ["When", html`<${Time} at=${made.at} />`],
    made.by && ["By", html`<bdi>${made.by}</bdi>`],
    made.beta !== undefined && ["How much the stream's posts say", `${made.beta.toFixed(2)} of 1${made.cohesion ? `; they agree by ${made.cohesion.toFixed(2)}` : ""}`],
    made.labels > 0 && ["Labels", number(made.labels)],
  ].filter(Boolean);
  return html`<dl class="facts">${said.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${made.posts.length > 0 && html`<details><summary>It learned from ${plural(made.posts.length, "post")}</summary><ul>${made.posts.map(([platform, id]) => html`<li><bdi class="said">${platform} ${id}</bdi></li>`)}</ul></details>`}`;
}
