// The desk's figures at any threshold.
import { number, percent, plural, rate } from "/lib/ui.js";

export const STEP = 0.001;
export const snap = (score) => Math.round(score / STEP) * STEP;
export const inRange = (score) => Math.min(Math.max(snap(score), STEP), 1);
const NO_LABELS = { on: 0, off: 0, unsure: 0, random_labels: 0, share: null, recall: null };
const LEAST_SHOWN = 0.01; // of 1,000 everyday posts
const wholePercent = (share) => percent(share, 0);

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

// Each figure is {known}, its words, or {unknown}, the reason.
export const said = ({ known, unknown }) => known ?? `unknown: ${unknown}`;

export function hourlyFigure(data, { hourly, least, score }) {
  if (hourly !== null) return { known: `about ${rate(hourly)} posts` };
  const isMatched = score >= data.thresholds[1] - STEP;
  if (isMatched && least !== undefined) return { known: `at least ${rate(least)} posts` };
  if (!data.has_times) return { unknown: "the posts have no times" };
  if (isMatched) return { unknown: "the time is too short" };
  return { unknown: whyNearIsUnknown(data, score) ?? "the time is too short" };
}

// Why the posts between this score and the threshold are not counted; undefined where they are.
function whyNearIsUnknown(data, score) {
  if (data.floor !== null) {
    const below = `posts below ${data.floor.toFixed(3)} are not kept`;
    return score < data.floor ? below : undefined;
  }
  if (!data.seen) return "no worker keeps posts below the threshold";
  return `${number(data.seen)} of ${number(data.least_seen)} posts seen`;
}

// The posts of these bins between two scores; in a part of a bin, in proportion.
function countBetween({ edges }, counts, low, high) {
  const inBin = (count, n) => {
    const [from, to] = [Math.max(low, edges[n]), Math.min(high, edges[n + 1])];
    return (count * Math.max(to - from, 0)) / (edges[n + 1] - edges[n]);
  };
  return Math.round(counts.reduce((sum, count, n) => sum + inBin(count, n), 0));
}

// How many more or fewer posts would match than now.
export function changeWords(data, score) {
  const [low, high] = data.thresholds;
  const now = plural(data.matched, "post matches", "posts match");
  if (Math.abs(score - low) < STEP / 2 && high - low < STEP) return `${now} now.`;
  if (score >= high) {
    const fewer = Math.min(countBetween(data, data.bins.matches, 0, score), data.matched);
    return `About ${number(fewer)} fewer than now: ${number(data.matched - fewer)} of ${number(data.matched)}.`;
  }
  const why =
    score < low
      ? whyNearIsUnknown(data, score)
      : "the articles have different thresholds";
  if (why) return `How many more would match is unknown: ${why}. ${now} now.`;
  const more = countBetween(data, data.bins.near, score, low);
  return `About ${number(more)} more than now: ${number(data.matched + more)} instead of ${number(data.matched)}.`;
}

export function backgroundWords(data, { background }) {
  const least = Math.max(1000 / data.background_posts, LEAST_SHOWN);
  if (background < least) return `fewer than ${least.toFixed(2)}`;
  return background.toFixed(background >= 10 ? 0 : 2);
}

export const labelWords = ({ labels }) =>
  `${number(labels.on)} on, ${number(labels.off)} off, ${number(labels.unsure)} unsure`;

export function shareFigure(data, { labels, isReached }) {
  if (!data.labelled_scores.length) return { unknown: "nothing is labelled yet" };
  if (data.lowest_covered === null) return { unknown: "no label of these matches was drawn at random" };
  const floor = data.lowest_covered.toFixed(3);
  if (!isReached) return { unknown: `labels drawn at random reach down to ${floor}` };
  if (!labels.share) return { unknown: "no label up here was drawn at random" };
  const [low, share, high] = labels.share.map(wholePercent);
  return { known: `${share} (${low} to ${high}), by ${plural(labels.random_labels, "label")}` };
}

export function recallFigure(data, { labels }) {
  if (!labels.recall) return { unknown: "too few labels drawn at random" };
  const [low, high] = labels.recall.map(wholePercent);
  return { known: `${low} to ${high}, of those that score ${data.lowest_covered.toFixed(3)} or more` };
}

// For a screen reader.
export function inWords(data, score) {
  const reading = readAt(data, score);
  return (
    `${score.toFixed(3)}: ${changeWords(data, score)} ` +
    `${backgroundWords(data, reading)} of 1,000 everyday posts; labels ${labelWords(reading)}`
  );
}
