// seeds
import { html } from "/vendor/preact.js";
export default function View() {
  return html`<h1>seeds</h1>`;
}
