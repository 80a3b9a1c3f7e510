// One event: a frame with its tabs, each a page of its own that is fetched when it is opened.
import { html } from "/vendor/preact.js";
import { eventPage, Fetched } from "/lib/ui.js";

const TABS = {
  __proto__: null,
  matches: ["Matches", () => import("/views/event/matches.js")],
  scores: ["Scores", () => import("/views/event/scores.js")],
  judge: ["Judge", () => import("/views/event/judge.js")],
  learned: ["Learned", () => import("/views/event/learned.js")],
  export: ["Export", () => import("/views/event/export.js")],
};

export default function Event({ rest, session }) {
  const [event = "", asked = "matches"] = rest;
  const tab = TABS[asked] ? asked : "matches";
  return html`<h1><bdi>${event}</bdi></h1>
    <nav class="tabs" aria-label="Of this event">
      ${Object.entries(TABS).map(([name, [title]]) => html`<a href=${eventPage(event, name)} aria-current=${name === tab ? "page" : undefined}>${title}</a>`)}
    </nav>
    <${Fetched} key=${event} load=${TABS[tab][1]} event=${event} session=${session} />`;
}
