// event
import { html } from "/vendor/preact.js";
export default function View() {
  return html`<h1>event</h1>`;
}
