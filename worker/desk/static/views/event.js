// One event: a frame with its tabs, each a page of its own that is fetched when it is opened.
import { html, useEffect, useState } from "/vendor/preact.js";
import { Refused, Waiting } from "/lib/ui.js";

const TABS = {
  matches: ["Matches", () => import("/views/event/matches.js")],
  scores: ["Scores", () => import("/views/event/scores.js")],
  judge: ["Judge", () => import("/views/event/judge.js")],
  learned: ["Learned", () => import("/views/event/learned.js")],
  export: ["Export", () => import("/views/event/export.js")],
};

export const addressOf = (event, tab = "matches") => `#/event/${encodeURIComponent(event)}/${tab}`;

export default function Event({ rest, session }) {
  const [event = "", asked = "matches"] = rest;
  const tab = TABS[asked] ? asked : "matches";
  const [[shown, View, error], set] = useState([]);
  useEffect(() => {
    let gone = false;
    TABS[tab][1]().then(
      (module) => gone || set([tab, module.default]),
      () => gone || set([tab, null, new Error("this page cannot be fetched; is `newsift desk` still running?")]),
    );
    return () => (gone = true);
  }, [tab]);
  useEffect(() => {
    document.title = `${event} – newsift`;
    return () => (document.title = "newsift");
  }, [event]);
  return html`<h1><bdi>${event}</bdi></h1>
    <nav class="tabs" aria-label="Of this event">
      ${Object.entries(TABS).map(([name, [title]]) => html`<a href=${addressOf(event, name)} aria-current=${name === tab ? "page" : undefined}>${title}</a>`)}
    </nav>
    ${shown !== tab ? html`<${Waiting} what="Fetching" />` : error ? html`<${Refused} error=${error} />` : html`<${View} key=${event} event=${event} session=${session} />`}`;
}
