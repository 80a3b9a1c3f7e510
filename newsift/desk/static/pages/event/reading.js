// The desk's figures at any threshold.
import { number, rate } from "/lib/ui.js";

export const STEP = 0.001;
export const snap = (score) => Math.round(score / STEP) * STEP;
export const inRange = (score) => Math.min(Math.max(snap(score), STEP), 1);
const NO_LABELS = { on: 0, off: 0, unsure: 0, random_labels: 0, share: null, recall: null };
const wholePercent = (share) => `${Math.round(100 * share)} %`;

// A value between two edges of the histogram; null where one of them is unknown.
function interpolate({ edges }, values, score) {
  const last = edges.findLastIndex((edge) => edge <= score);
  const at = Math.min(Math.max(last, 0), edges.length - 2);
  const [low, high] = [values[at], values[at + 1]];
  if (low === null || high === null) return score >= edges[at + 1] ? high : null;
  const part = (score - edges[at]) / (edges[at + 1] - edges[at]);
  return low + (high - low) * Math.min(Math.max(part, 0), 1);
}

// A label counts for its score and those below.
export function readAt(data, score) {
  return {
    score,
    hourly: interpolate(data, data.hourly, score),
    least: data.hourly.find((each, n) => each !== null && data.edges[n] >= score),
    background: interpolate(data, data.background, score),
    labels: data.summaries.findLast((each) => each.least >= score - STEP / 2) ?? NO_LABELS,
    isReached: data.lowest_covered !== null && score >= data.lowest_covered - STEP / 2,
  };
}

export function hourlyWords(data, { hourly, least, score }) {
  if (hourly !== null) return `about ${rate(hourly)} posts`;
  const isMatched = score >= data.thresholds[1] - STEP;
  if (isMatched && least !== undefined) return `${rate(least)} posts or some more`;
  if (data.floor !== null) {
    const below = `unknown: near misses below ${data.floor.toFixed(3)} are not kept`;
    return score < data.floor ? below : "not known yet";
  }
  const few = `unknown: ${number(data.seen)} of ${number(data.least_seen)} posts seen`;
  if (!isMatched) return data.seen ? few : "unknown: no worker gives near misses";
  return "unknown: the time is too short";
}

export function backgroundWords(data, { background }) {
  const least = 1000 / data.background_posts;
  if (background < least) return `fewer than ${least.toFixed(2)}`;
  return background.toFixed(background >= 10 ? 0 : 2);
}

export const labelWords = ({ labels }) =>
  `${number(labels.on)} on, ${number(labels.off)} off, ${number(labels.unsure)} unsure`;

export function shareWords(data, { labels, isReached }) {
  if (!data.labelled_scores.length) return "nothing is labelled yet";
  if (data.lowest_covered === null) return "unknown: no label of these matches was drawn at random";
  if (!isReached) return `unknown: labels drawn at random reach down to ${data.lowest_covered.toFixed(3)}`;
  if (!labels.share) return "unknown: no label up here was drawn at random";
  const [low, share, high] = labels.share.map(wholePercent);
  return `${share} (${low} to ${high}), by ${number(labels.random_labels)} drawn at random`;
}

export function recallWords(data, { labels }) {
  if (!labels.recall) return "unknown: too few labels drawn at random";
  const [low, high] = labels.recall.map(wholePercent);
  return `${low} to ${high} of those on the event that score ${data.lowest_covered.toFixed(3)} or more`;
}

// For a screen reader.
export function inWords(data, score) {
  const reading = readAt(data, score);
  return (
    `${score.toFixed(3)}: an hour ${hourlyWords(data, reading)}; ` +
    `${backgroundWords(data, reading)} of 1,000 everyday posts; labels ${labelWords(reading)}`
  );
}
