// Shared by the pages of seeds: states, thresholds, fields and changes.
import { html } from "/vendor/preact.js";
import { eventAddress, perform, plural } from "/lib/ui.js";

const STATES = {
  live: ["live", "good"],
  paused: ["paused", ""],
  expired: ["expired", ""],
  refused: ["refused", "bad"],
  stale: ["stale", "bad"],
  replaced: ["in its event’s profile", "good"],
  unknown: ["unknown", ""],
};
export const ENDS_NOTE = "7d, or a moment as 2026-12-31T12:00:00Z; nothing: never";
const isNumber = (value) => value !== null && value !== undefined;

export function State({ row }) {
  const [word, kind] = STATES[row.state] ?? [row.state, ""];
  return html`<span class=${`badge ${kind}`}>${word}</span>`;
}

// The threshold in force: the seed's own, the configured one, or the automatic one.
export function thresholdWords(row, configured) {
  if (row.state === "refused") return "–";
  if (isNumber(row.threshold)) return `${row.threshold} (its own)`;
  if (isNumber(configured)) return `${configured} (matching.threshold)`;
  return row.threshold_in_force ? `auto ${row.threshold_in_force.toFixed(4)}` : "auto";
}

// The meaning of an empty threshold field.
export function defaultThreshold(automatic, configured) {
  if (isNumber(configured)) return `nothing: ${configured} (matching.threshold)`;
  return automatic ? `nothing: automatic, ${automatic.toFixed(4)}` : "nothing: automatic";
}

export const seedAddress = (id) => `#/seeds/seed/${encodeURIComponent(id)}`;

// Event names that inputs suggest.
export const EventNames = ({ names = [] }) =>
  html`<datalist id="events">${names.map((name) => html`<option value=${name} />`)}</datalist>`;

export const Field = ({ label, note, children }) =>
  html`<label class="field"><span>${label}</span>${children}
    ${note && html`<small class="quiet">${note}</small>`}</label>`;

export const undoRemoval = ({ number, id }) =>
  perform("/api/seeds/undo", { number }, `${id} is back`);

export const removeSeed = ({ id, etag }) =>
  perform("/api/seeds/remove", { id, etag }, `${id} is removed`);

export function pauseSeed({ id, etag, state }) {
  const paused = state !== "paused";
  const done = `${id} ${paused ? "is paused" : "goes on"}`;
  return perform("/api/seeds/set", { id, etag, paused }, done);
}

// Null for an empty field; the desk refuses a text that is not a number.
export function thresholdOf(text) {
  if (String(text).trim() === "") return null;
  const value = Number(String(text).replace(",", "."));
  return Number.isNaN(value) ? text : value;
}

export const heaviestWords = (words) => {
  const names = words.slice(0, 12).map(([word]) => word);
  return html`<p class="quiet">Highlighted are the words that weigh most: ${names.join(", ")}.</p>`;
};

// Advice for events with few articles, and for those that could learn a profile.
export function Advice({ events }) {
  const few = ({ event, seeds }) =>
    html`<p>The event <strong class="quoted">${event}</strong> has ${plural(seeds, "article")}: with
      three an event found twice as many of its posts (10 of 11, not 5). Add more of them under the
      same event.</p>`;
  const learn = ({ event, seeds }) =>
    html`<p>The event <strong class="quoted">${event}</strong> has ${plural(seeds, "article")}: one
      profile of them all finds more; <a href=${eventAddress(event, "learned")}>see what it would
      learn</a>.</p>`;
  return events.map((each) => html`${each.few && few(each)}${each.may_learn && learn(each)}`);
}
