// Feeds: looked at first, then followed for as long as the desk is open, and stopped.
import { html, useState } from "/vendor/preact.js";
import { act, useAnswer } from "/lib/api.js";
import { Do, Out, Refused, Time, Waiting, doing, number, plural } from "/lib/ui.js";
import { Confirm } from "/lib/confirm.js";
import { Events, Field } from "/views/seeds/parts.js";

const STATES = {
  begins: "begins",
  asking: "is asked now",
  waiting: "followed",
  elsewhere: "followed by another command",
  ended: "ended",
  stopped: "stopped",
};
const CAME = { seed: "would be a seed", there: "is a seed already", later: "read when the feed is followed", refused: "makes no seed" };

export function Feeds({ session }) {
  const [rows, error] = useAnswer("/api/feeds", {}, ["seeds"]);
  const [doomed, doom] = useState(null);
  const stop = () => doing("/api/feeds/stop", { feed: doomed.feed }, "the feed is followed no more");
  return html`<p><a href="#/seeds">All seeds</a></p><h1>Feeds</h1>
    <p>Each article that a feed names, RSS or Atom, becomes a seed, for as long as this desk is open and again when it is opened anew; <code>newsift seeds follow</code> does the same without it.</p>
    ${!session.read_only && html`<${Follow} />`}
    <${Refused} error=${error} />
    ${!rows ? !error && html`<${Waiting} />` : rows.length ? rows.map((row) => html`<${Feed} key=${row.feed} row=${row} stop=${session.read_only ? null : () => doom(row)} />`)
    : html`<p class="quiet">This desk follows no feed.</p>`}
    ${doomed && html`<${Confirm} kind="bad" title=${`Follow ${doomed.feed} no more? Its seeds stay.`} yes="Stop" run=${stop} close=${() => doom(null)} />`}`;
}

function Follow() {
  const [wanted, set] = useState({ feed: "", event: "", keep: "14d" });
  const [looked, look] = useState(null);
  const [busy, work] = useState(false);
  const [error, fail] = useState(null);
  const [listed] = useAnswer("/api/seeds", { most: 0 });
  const field = (name) => ({
    value: wanted[name],
    onInput: (event) => set({ ...wanted, [name]: event.target.value }),
  });
  const ask = async (event) => {
    event.preventDefault();
    fail(null);
    work(true);
    try {
      look({ of: wanted, ...(await act("/api/feeds/look", wanted)).answer });
    } catch (why) {
      fail(why);
    }
    work(false);
  };
  const follow = async () => {
    if ((await doing("/api/feeds/follow", wanted, "the feed is followed")) === undefined) return;
    set({ feed: "", event: "", keep: wanted.keep });
  };
  return html`<form class="card form" onSubmit=${ask}><${Events} names=${listed?.events} />
    <div class="fields"><${Field} label="Address of the feed"><input type="url" required placeholder="https://" maxlength="2048" ...${field("feed")} /><//>
      <${Field} label="Event" note="nothing: each article is an event of its own"><input list="events" maxlength="240" ...${field("event")} /><//>
      <${Field} label="Keep each for" note="7d, 2w, 48h"><input maxlength="20" ...${field("keep")} /><//></div>
    <button class="main" disabled=${busy || !wanted.feed.trim()}>Show what it names</button>
    <div role="status">${busy && html`<${Waiting} what="Asking the feed, and reading its newest articles, with the pauses that sites ask for" />`}</div>
    <${Refused} error=${error} />
    ${looked?.of === wanted && html`<${Named} looked=${looked} />
      <div class="row"><${Do} kind="main" run=${follow}>Follow this feed<//><span class="quiet">Nothing is published yet.</span></div>`}
  </form>`;
}

function Named({ looked }) {
  const { articles, total, told } = looked;
  return html`<p>${total ? `The feed names ${plural(total, "article")} that would not have ended already${total > articles.length ? `; the newest ${number(articles.length)}:` : ":"}` : "The feed names no article now that would not have ended already."}</p>
    ${told.map((line) => html`<p class="quiet said">${line}</p>`)}
    <ul class="plain">${articles.map((each) => html`<li class="post"><${Out} href=${each.link}><span class="said">${each.title || each.link}</span><//> <span class="quiet"><${Time} at=${each.published} /> · ${CAME[each.state]}</span>${each.why && html`<div class="said bad">${each.why}</div>`}</li>`)}</ul>`;
}

function Feed({ row, stop }) {
  const bad = ["ended", "elsewhere"].includes(row.state);
  return html`<article class="card" aria-label=${`Feed ${row.feed}`}>
    <h2><${Out} href=${row.feed}><span class="said">${row.feed}</span><//> <span class=${`badge ${bad ? "bad" : "good"}`}>${STATES[row.state] ?? row.state}</span></h2>
    ${row.why && html`<p class="said bad">${row.why}</p>`}
    <p class="quiet said">${row.event ? `Event ${row.event}` : "Each article its own event"}, kept ${row.keep}; wanted by ${row.by}.
      ${row.last && html` Last looked at <${Time} at=${row.last} />.`} ${plural(row.articles, "article")} known, ${number(row.of_them_seeds)} of them seeds.</p>
    ${row.told.length > 0 && html`<details open=${bad}><summary>What came of it</summary><ul class="plain">${row.told.map((each) => html`<li><span class="quiet"><${Time} at=${each.at} /></span> <span class="said">${each.said}</span></li>`)}</ul></details>`}
    ${row.seeds.length > 0 && html`<details><summary>${plural(row.seeds.length, "seed")} published since the desk was opened</summary><ul class="plain">${row.seeds.map((line) => html`<li class="said">${line}</li>`)}</ul></details>`}
    ${stop && html`<div class="row"><${Do} run=${stop} aria-label=${`Stop following ${row.feed}`}>Stop<//></div>`}
  </article>`;
}
