// The state of everything in two words, in the head of every page.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";

const APART_MS = 4000;

export function Badge() {
  const [told] = useAnswer("/api/health/summary", {}, ["health"], APART_MS);
  return html`<span role="status">${told && html`<a class=${`badge ${told.state}`} href="#/health" title=${told.alerts[0]?.says}>${told.says}</a>`}</span>`;
}
