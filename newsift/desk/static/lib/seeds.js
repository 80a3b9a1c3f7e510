// Shared by the pages of seeds: thresholds, names and words.
import { html } from "/vendor/preact.js";
import { isMissing } from "/lib/ui.js";

export const ENDS_NOTE = "7d, or a moment as 2026-12-31T12:00:00Z; nothing: never";

// The meaning of an empty threshold field.
export function defaultThreshold(automatic, configured) {
  if (!isMissing(configured)) return `nothing: ${configured} (matching.threshold)`;
  return automatic ? `nothing: automatic, ${automatic.toFixed(4)}` : "nothing: automatic";
}

export const seedAddress = (id) => `#/seeds/seed/${encodeURIComponent(id)}`;

// Event names that inputs suggest.
export const EventNames = ({ names = [] }) =>
  html`<datalist id="events">${names.map((name) => html`<option value=${name} />`)}</datalist>`;

// Null for an empty field; the desk refuses a text that is not a finite number.
export function thresholdOf(text) {
  if (String(text).trim() === "") return null;
  const value = Number(String(text).replace(",", "."));
  return Number.isFinite(value) ? value : text;
}

export const heaviestWords = (words) => {
  const names = words.slice(0, 12).map(([word]) => word);
  return html`<p class="quiet">Highlighted are the words that weigh most: ${names.join(", ")}.</p>`;
};
