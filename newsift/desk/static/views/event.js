// One event: a frame with its tabs, each a page of its own that is fetched when it is opened.
import { html } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { eventPage, Fetched, plural } from "/lib/ui.js";

const TABS = {
  __proto__: null,
  matches: ["Matches", () => import("/views/event/matches.js")],
  scores: ["Scores", () => import("/views/event/scores.js")],
  judge: ["Judge", () => import("/views/event/judge.js")],
  learned: ["Learned", () => import("/views/event/learned.js")],
  export: ["Export", () => import("/views/event/export.js")],
};

// What no page of an event can show, as the labels' topic holds more than there is room for, or other things.
function LeftOut() {
  const [found] = useAnswer("/api/judge/left-out", {}, ["labels"]);
  return html`${found?.left_out ? html`<p class="refused">${plural(found.left_out, "label is", "labels are")} left out, of all events: there is no room for them. Each person has a fair share for each event.</p>` : null}
    ${found?.refused ? html`<p class="quiet">${plural(found.refused, "label is", "labels are")} refused, of all events: not written as a label is.</p>` : null}`;
}

export default function Event({ rest, session }) {
  const [event = "", asked = "matches"] = rest;
  const tab = TABS[asked] ? asked : "matches";
  return html`<h1><bdi>${event}</bdi></h1>
    <nav class="tabs" aria-label="Of this event">
      ${Object.entries(TABS).map(([name, [title]]) => html`<a href=${eventPage(event, name)} aria-current=${name === tab ? "page" : undefined}>${title}</a>`)}
    </nav>
    <${LeftOut} />
    <${Fetched} key=${event} load=${TABS[tab][1]} event=${event} session=${session} />`;
}
