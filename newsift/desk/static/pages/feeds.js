// Feeds: previewed, followed for as long as the desk is open, and stopped.
import { html, useState } from "/vendor/preact.js";
import { act, useAnswer } from "/lib/api.js";
import { Button, ConfirmButton, ErrorText, ExternalLink, fieldInputs } from "/lib/ui.js";
import { LoadingText, LoadStatus, number, paragraph, perform, plural } from "/lib/ui.js";
import { quoted, Time } from "/lib/ui.js";
import { EventNames, Field } from "/lib/seeds.js";

const STATES = {
  starting: "starts",
  reading: "is read now",
  waiting: "followed",
  elsewhere: "followed by another command",
  ended: "ended",
  stopped: "stopped",
};
const ARTICLES = {
  seed: "would be a seed",
  exists: "is a seed already",
  later: "read when the feed is followed",
  refused: "makes no seed",
};

export function Feeds({ session }) {
  const [rows, error] = useAnswer("/api/feeds", {}, ["seeds"]);
  const feed = (row) =>
    html`<${Feed} key=${row.feed} row=${row} mayStop=${!session.read_only} />`;
  return html`<p><a href="#/seeds">All seeds</a></p><h1>Feeds</h1>
    <p>Each article that a feed names, RSS or Atom, becomes a seed, for as long as this desk is open
      and again at its next start; <code>newsift seeds follow</code> does the same without it.</p>
    ${!session.read_only && html`<${Follow} />`}
    <${LoadStatus} answer=${rows} error=${error} />
    ${rows?.map(feed)}
    ${paragraph("quiet", rows?.length === 0 && "This desk follows no feed.")}`;
}

function Follow() {
  const [fields, setFields] = useState({ feed: "", event: "", keep: "14d" });
  const [preview, setPreview] = useState(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [list] = useAnswer("/api/seeds", { most: 0 });
  const field = fieldInputs(fields, setFields);
  const show = async (event) => {
    event.preventDefault();
    setError(null);
    setBusy(true);
    try {
      setPreview({ fields, ...(await act("/api/feeds/preview", fields)).answer });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const follow = async () => {
    const answer = await perform("/api/feeds/follow", fields, "the feed is followed");
    if (answer !== undefined) setFields({ feed: "", event: "", keep: fields.keep });
  };
  const waiting = "Reading the feed and its newest articles, with the pauses that sites ask for";
  const review = html`<${Preview} preview=${preview} />
    <div class="row"><${Button} kind="main" run=${follow}>Follow this feed<//>
      <span class="quiet">Nothing is published yet.</span></div>`;
  return html`<form class="card form" onSubmit=${show}><${EventNames} names=${list?.events} />
    <div class="fields">
      <${Field} label="Address of the feed"><input type="url" required placeholder="https://"
        maxlength="2048" ...${field("feed")} /><//>
      <${Field} label="Event" note="nothing: each article is an event of its own">
        <input list="events" maxlength="240" ...${field("event")} /><//>
      <${Field} label="Keep each for" note="7d, 2w, 48h">
        <input maxlength="20" ...${field("keep")} /><//></div>
    <button class="main" disabled=${busy || !fields.feed.trim()}>Show what it names</button>
    <div role="status">${busy && html`<${LoadingText} what=${waiting} />`}</div>
    <${ErrorText} error=${error} />${preview?.fields === fields && review}</form>`;
}

function Preview({ preview: { articles, total, messages } }) {
  const newest = total > articles.length ? `; the newest ${number(articles.length)}` : "";
  const text = total
    ? `The feed names ${plural(total, "article")} that would not have ended already${newest}:`
    : "The feed names no article now that would not have ended already.";
  const article = (each) =>
    html`<li class="post">
      <${ExternalLink} href=${each.link}>${quoted(each.title || each.link)}<//>
      ${" "}<span class="quiet"><${Time} at=${each.published} /> · ${ARTICLES[each.state]}</span>
      ${each.why && html`<div class="quoted bad">${each.why}</div>`}</li>`;
  return html`<p>${text}</p>
    ${messages.map((line) => paragraph("quiet quoted", line))}
    <ul class="plain">${articles.map(article)}</ul>`;
}

function Feed({ row, mayStop }) {
  const isBad = ["ended", "elsewhere"].includes(row.state);
  const event = row.event ? `Event ${row.event}` : "Each article its own event";
  const message = ({ at, text }) =>
    html`<li><span class="quiet"><${Time} at=${at} /></span> ${quoted(text)}</li>`;
  const seed = (line) => html`<li class="quoted">${line}</li>`;
  const list = (title, items, open) =>
    items.length > 0 &&
    html`<details open=${open}><summary>${title}</summary><ul class="plain">${items}</ul></details>`;
  const published = `${plural(row.seeds.length, "seed")} published since the desk was opened`;
  const stop = () => perform("/api/feeds/stop", { feed: row.feed }, "the feed is followed no more");
  const button = html`<div class="row"><${ConfirmButton} text="Stop" run=${stop} yes="Stop"
    yesKind="bad" title=${`Follow ${row.feed} no more? Its seeds stay.`}
    aria-label=${`Stop following ${row.feed}`} /></div>`;
  return html`<article class="card" aria-label=${`Feed ${row.feed}`}>
    <h2><${ExternalLink} href=${row.feed}>${quoted(row.feed)}<//>
      ${" "}<span class=${`badge ${isBad ? "bad" : "good"}`}>${STATES[row.state]}</span></h2>
    ${paragraph("quoted bad", row.why)}
    <p class="quiet quoted">${event}, kept ${row.keep}; added by ${row.by}.
      ${row.last && html` Last read <${Time} at=${row.last} />.`}
      ${` ${plural(row.articles, "article")}`} known, ${number(row.seed_articles)} of them
        seeds.</p>
    ${list("Messages", row.messages.map(message), isBad)}
    ${list(published, row.seeds.map(seed))}${mayStop && button}</article>`;
}
