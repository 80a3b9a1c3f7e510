// What the desk has counted, read at any threshold: nothing is counted here, only looked up.
import { number } from "/lib/ui.js";

export const STEP = 0.001;
export const snapped = (score) => Math.round(score / STEP) * STEP;
export const within = (score) => Math.min(Math.max(snapped(score), STEP), 1);

// A value between two edges; none where one of them is not known.
function between(told, values, score) {
  const { edges } = told;
  const at = Math.min(Math.max(edges.findLastIndex((edge) => edge <= score), 0), edges.length - 2);
  const [low, high] = [values[at], values[at + 1]];
  if (low === null || high === null) return score >= edges[at + 1] ? high : null;
  const part = Math.min(Math.max((score - edges[at]) / (edges[at + 1] - edges[at]), 0), 1);
  return low + (high - low) * part;
}

const NOTHING = { on: 0, off: 0, unsure: 0, drawn: 0, share: null, recall: null };

// All that is known of a threshold; a label speaks for its score and those below.
export function reading(told, score) {
  const above = told.glances.filter((each) => each.least >= score - STEP / 2);
  return {
    score,
    hourly: between(told, told.hourly, score),
    everyday: between(told, told.everyday, score),
    labels: above[above.length - 1] ?? NOTHING,
    reached: told.reach !== null && score >= told.reach - STEP / 2,
  };
}

const percent = (share) => `${Math.round(100 * share)} %`;
const about = (rate) => (rate >= 100 ? number(Math.round(rate)) : rate >= 10 ? rate.toFixed(0) : rate.toFixed(1));

export function hourlyWords(told, { hourly, score }) {
  if (hourly !== null) return `about ${about(hourly)} posts`;
  if (told.floor === null) return score < told.thresholds[1] ? "nobody knows: no worker tells of near misses" : "too little time has passed";
  return score < told.floor ? `nobody knows: below ${told.floor.toFixed(3)} nothing is kept` : "nobody knows yet";
}

export function everydayWords(told, { everyday }) {
  const least = 1000 / told.everyday_posts;
  return everyday < least ? `fewer than ${least.toFixed(2)}` : everyday >= 10 ? everyday.toFixed(0) : everyday.toFixed(2);
}

export const labelWords = ({ labels }) => `${number(labels.on)} on, ${number(labels.off)} off, ${number(labels.unsure)} unsure`;

export function shareWords(told, { labels, reached }) {
  if (!told.marks.length) return "nothing is labelled yet";
  if (told.reach === null) return "unknown: no label of these matches was drawn at random";
  if (!reached) return `unknown: labels drawn at random reach down to ${told.reach.toFixed(3)}`;
  if (!labels.share) return "unknown: no label up here was drawn at random";
  const [low, share, high] = labels.share;
  return `${percent(share)} (${percent(low)} to ${percent(high)}), by ${number(labels.drawn)} drawn at random`;
}

export function recallWords(told, { labels }) {
  if (!labels.recall) return "unknown: too few labels drawn at random";
  const [low, high] = labels.recall;
  return `${percent(low)} to ${percent(high)} of those on the event that score ${told.reach.toFixed(3)} or more`;
}

// The same in a breath, for a screen reader that moves the handle.
export function inWords(told, score) {
  const found = reading(told, score);
  return `${score.toFixed(3)}: an hour ${hourlyWords(told, found)}; ${everydayWords(told, found)} of 1,000 everyday posts; labels ${labelWords(found)}`;
}
