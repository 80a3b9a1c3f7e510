// What the pages of seeds share: states, thresholds, dates, and a question before something is removed.
import { html } from "/vendor/preact.js";
import { Time, doing, eventPage, plural, tell } from "/lib/ui.js";

const STATES = {
  live: ["live", "good"],
  paused: ["paused", ""],
  expired: ["expired", ""],
  refused: ["refused", "bad"],
  stale: ["stale", "bad"],
  replaced: ["in its event’s profile", "good"],
  unknown: ["unknown", ""],
};

export function State({ row }) {
  const [word, kind] = STATES[row.state] ?? [row.state, ""];
  return html`<span class=${`badge ${kind}`}>${word}</span>`;
}

// The threshold that holds, in words: the seed's own, the configured one, or the automatic one.
export function threshold(row, common) {
  if (row.state === "refused") return "–";
  if (row.threshold !== null && row.threshold !== undefined) return `${row.threshold} (its own)`;
  if (common !== null && common !== undefined) return `${common} (matching.threshold)`;
  return row.cut ? `auto ${row.cut.toFixed(4)}` : "auto";
}

export const Ends = ({ at }) => (at ? html`<${Time} at=${at} />` : html`<span>never</span>`);

export const seedPage = (id) => `#/seeds/seed/${encodeURIComponent(id)}`;

// Names of events that are there already, offered wherever one is asked for.
export const Events = ({ names = [] }) => html`<datalist id="events">${names.map((name) => html`<option value=${name} />`)}</datalist>`;

// A labelled field.
export function Field({ label, note, children }) {
  return html`<label class="field"><span>${label}</span>${children}${note && html`<small class="quiet">${note}</small>`}</label>`;
}

// Bring back what was removed last.
export async function undo(removed) {
  const back = await doing("/api/seeds/undo", { number: removed.number });
  if (back) tell(`${back.id} is back`);
}

export const remove = (row) => doing("/api/seeds/remove", { id: row.id, mark: row.mark }, `${row.id} is removed`);
export const pause = (row) =>
  doing("/api/seeds/set", { id: row.id, mark: row.mark, paused: row.state !== "paused" }, `${row.id} ${row.state === "paused" ? "goes on" : "is paused"}`);

// A threshold as it is sent: null for nothing; what is no number stays what was typed, to be refused.
export function scoreOf(typed) {
  const value = Number(String(typed).replace(",", "."));
  return String(typed).trim() === "" ? null : Number.isNaN(value) ? typed : value;
}

const edited = (edits) => ("threshold" in edits ? { ...edits, threshold: scoreOf(edits.threshold) } : edits);

// Drafts as the desk is asked about them: as they were read, what is said otherwise, what they would replace.
export const asked = (drafts) =>
  drafts.map(({ id, value, source, doubt, edits, check }) => ({ id, value, source, doubt, edits: edited(edits), mark: check?.mark ?? "" }));

// What would make more of events that have few articles, or several.
export function Advice({ events }) {
  return events.map(({ event, seeds, few, may_learn }) => html`
    ${few && html`<p>The event <strong class="said">${event}</strong> has ${plural(seeds, "article")}: with three an event found twice as many of its posts (10 of 11, not 5). Add more of them under the same event.</p>`}
    ${may_learn && html`<p>The event <strong class="said">${event}</strong> has ${plural(seeds, "article")}: one profile of them all tells more; <a href=${eventPage(event, "learned")}>see what it would learn</a>.</p>`}`);
}
