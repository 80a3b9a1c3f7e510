// One event, with tabs that are loaded when they are opened.
import { html } from "/vendor/preact.js";
import { useAnswer, useRestarts } from "/lib/api.js";
import { eventAddress, LazyView, paragraph, plural } from "/lib/ui.js";

const TABS = {
  __proto__: null,
  matches: ["Matches", () => import("/pages/event/matches.js")],
  scores: ["Scores", () => import("/pages/event/scores.js")],
  judge: ["Judge", () => import("/pages/event/judge.js")],
  learned: ["Learned", () => import("/pages/event/learned.js")],
};

function LeftOutLabels() {
  const [labels] = useAnswer("/api/judge/left-out", {}, ["labels"]);
  const { left_out: left = 0, refused = 0 } = labels ?? {};
  const count = (n) => plural(n, "label is", "labels are");
  const full = `${count(left)} left out, of all events: there is no room for them. Name another
    topic in topics.labels.`;
  const odd = `${count(refused)} refused, of all events: not written as a label is.`;
  return html`${paragraph("refused", left > 0 && full)}${paragraph("quiet", refused > 0 && odd)}`;
}

export default function Event({ rest, session }) {
  const [event = "", name = "matches", filters] = rest;
  const current = TABS[name] ? name : "matches";
  const restarts = useRestarts(); // Another start has other posts, and no queue of the one before.
  const [known] = useAnswer("/api/event", { event }, ["events", "seeds", "matches", "labels"]);
  if (known?.ready && !known.exists) {
    return html`<h1><bdi>${event}</bdi></h1><p class="card">There is no event of this name: no
      article, no match and no label has it. <a href="#/">All events</a></p>`;
  }
  const tab = ([each, [title]]) =>
    html`<a href=${eventAddress(event, each)} aria-current=${each === current ? "page" : undefined}>
      ${title}</a>`;
  return html`<h1><bdi>${event}</bdi></h1>
    <nav class="tabs" aria-label="Of this event">${Object.entries(TABS).map(tab)}</nav>
    <${LeftOutLabels} />
    <${LazyView} key=${`${restarts} ${event}`} load=${TABS[current][1]} event=${event} session=${session}
      filters=${filters} articles=${known?.articles} note=${known?.note} />`;
}
