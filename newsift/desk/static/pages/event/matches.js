// The matches of an event as they arrive: filters, stories, and the posts of each story.
import { html, useEffect, useMemo, useRef, useState } from "/vendor/preact.js";
import { download, useAnswer, userName } from "/lib/api.js";
import { enqueue } from "/lib/outbox.js";
import { Attachments, Button, eventAddress, ExternalLink, HighlightedText, lastPage } from "/lib/ui.js";
import { LoadStatus, notify, number, paragraph, plural, score, Select, Table, Time, useKeys } from "/lib/ui.js";

const STORIES_PER_PAGE = 50;
const REFRESH_MS = 500;
const PARTS = ["matches", "labels", "seeds"];
const COPIES_REFRESH_MS = 2000;
const MAX_MATCHES = 20000; // The desk holds no more of an event.
const TYPING_MS = 300; // An input takes effect this long after the last key.
const LANGUAGE = /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/i; // A screen reader may know it.
const UNFILTERED = Object.freeze({});
const ORDERS = [
  ["", "newest first"],
  ["score", "best first"],
];
const SPANS = [
  [15, "last 15 min"],
  [60, "last hour"],
  [360, "last 6 hours"],
  [1440, "last day"],
];
const FROM_UNTIL = "from"; // the choice of two moments
const FOLDED = ["order", "lang", "platform", "least", "most", "new", "link"];
const keyOf = (post) => `${post.platform}|${post.id}`;
const activeCard = () => document.activeElement?.closest("article[data-card]");

// The desk takes moments in milliseconds.
function queryOf({ from, to, ...filters }) {
  const [since, until] = [from, to].map((moment) => Date.parse(moment) || undefined);
  return { ...filters, since, until };
}

// A live list shows the latest answer; on hold its order stays, and counts and labels are updated.
function useStories(event, filters) {
  const [hold, setHold] = useState(null); // {up_to, skip, by}
  const rows = useRef({ list: [] });
  const question = useMemo(
    () => ({ ...queryOf(filters), event, up_to: hold?.up_to, skip: hold?.skip, count: STORIES_PER_PAGE }),
    [event, filters, hold],
  );
  const [answer, error] = useAnswer("/api/matches", question, PARTS, REFRESH_MS);
  if (answer && answer !== rows.current.answer) {
    const fresh = new Map(answer.stories.map((each) => [keyOf(each), each]));
    const latest = (old) => fresh.get(keyOf(old)) ?? old;
    const stays = hold && rows.current.skip === hold.skip;
    const list = stays ? rows.current.list.map(latest) : answer.stories;
    rows.current = { list, answer, skip: answer.skip };
  }
  return { error, hold, setHold, stories: rows.current.list, data: rows.current.answer };
}

function useCardKeys(list) {
  const step = (by) => {
    const cards = [...(list.current?.querySelectorAll("article[data-card]") ?? [])];
    const at = cards.indexOf(activeCard());
    cards[Math.max(0, Math.min(cards.length - 1, at + by))]?.focus();
  };
  const own = ":scope > .line a[data-own]"; // Copies and link cards have links of others.
  const open = (event) => event.repeat || activeCard()?.querySelector(own)?.click();
  return { j: () => step(1), k: () => step(-1), o: open };
}

// y, n and u label the post that has the focus; of two labels the last one counts.
function useLabelKeys(event, stories, session) {
  if (session.read_only) return {};
  const label = (verdict) => (press) => {
    const card = activeCard();
    const post = stories.find((each) => keyOf(each) === card?.dataset.card);
    if (!post || press.repeat) return;
    const { platform, id, text } = post;
    const question = { event, by: userName(), platform, id, verdict };
    enqueue("/api/judge/label", question, text, `labelled: ${verdict}`);
  };
  return { y: label("on"), n: label("off"), u: label("unsure") };
}

// Calls `changed` when the element enters the view or leaves it.
function useVisible(top, changed) {
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => changed.current(entry.isIntersecting));
    observer.observe(top.current);
    return () => observer.disconnect();
  }, []);
}

// The filters are the last part of the page's address, so that a link keeps them.
const readFilters = (text) => (text ? Object.fromEntries(new URLSearchParams(text)) : UNFILTERED);
const addressOf = (event, filters) => {
  const text = new URLSearchParams(filters).toString();
  return eventAddress(event) + (text && `/${encodeURIComponent(text)}`);
};

export default function Matches({ event, session, filters: inAddress }) {
  const filters = useMemo(() => readFilters(inAddress), [inAddress]);
  const { error, hold, setHold, stories, data } = useStories(event, filters);
  const top = useRef();
  const list = useRef();
  const changed = useRef();
  const stop = (by) => data && !hold && setHold({ up_to: data.up_to, skip: 0, by });
  const resume = () => {
    setHold(null);
    const inList = document.activeElement?.closest("article, .fresh");
    if (inList) document.querySelector("main").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  };
  const save = () =>
    download("/api/export", { event, by: userName() }).catch((error) => notify(error.message, true));
  const toggle = () => (hold ? resume() : stop("pause"));
  const filter = (next) => location.replace(addressOf(event, next));
  useEffect(() => setHold(null), [filters]);
  const isBeyond = hold?.skip > 0 && data?.skip === hold.skip && hold.skip >= data.total;
  useEffect(
    () => void (isBeyond && setHold({ ...hold, skip: lastPage(data.total, STORIES_PER_PAGE) })),
    [isBeyond],
  );
  changed.current = (above) => (above ? hold?.by === "scroll" && setHold(null) : stop("scroll"));
  useVisible(top, changed);
  useKeys({ ...useCardKeys(list), ...useLabelKeys(event, stories, session), p: toggle });
  const fresh = html`<button type="button" class="main fresh" onClick=${resume}>
    ${number(data?.newer)}${data?.newer >= MAX_MATCHES ? " or more" : ""} new</button>`;
  const story = (each) =>
    html`<${Story} key=${keyOf(each)} event=${event} post=${each} threshold=${data.threshold} />`;
  const nothing = html`<${Nothing} data=${data} filtered=${filters !== UNFILTERED}
    isFile=${session.is_file} />`;
  return html`<div class="row tools">
    <${Filters} now=${filters} data=${data} change=${filter} isFile=${session.is_file} />
    <div class="row bar" ref=${top}>
      <${Count} data=${data} count=${stories.length} />
      <button type="button" aria-pressed=${!!hold} onClick=${toggle}>
        ${hold ? "Go on" : "Pause"}${" "}<kbd>p</kbd></button>
      <${Button} run=${save}>Save all with labels<//>
    </div></div>
    <${LoadStatus} answer=${data} error=${error} />
    ${hold && data?.newer > 0 && fresh}
    ${data && !stories.length && nothing}
    <ol class="plain" ref=${list}
      onfocusin=${(move) => move.target.closest("article") && stop("focus")}>
      ${stories.map(story)}</ol>
    <${Pages} data=${data} hold=${hold} setHold=${setHold} />
    <p class="quiet keys"><kbd>j</kbd> <kbd>k</kbd> next and previous, <kbd>Enter</kbd> all of it,
      ${" "}<kbd>o</kbd> open the post, <kbd>y</kbd> <kbd>n</kbd> <kbd>u</kbd> on the event, off, unsure,
      ${" "}<kbd>p</kbd> pause</p>`;
}

function Count({ data, count }) {
  if (!data) return html`<span class="grow"></span>`;
  return html`<span class="grow quiet">
    ${plural(Math.max(data.total, count), "story", "stories")}${data.ready ? "" : ", still reading"}
    ${data.left_out > 0 && `, without ${number(data.left_out)} older matches (desk.matches_bytes)`}
    ${data.error && html` <span class="bad">the topic is not followed: ${data.error}</span>`}</span>`;
}

function Nothing({ data, filtered, isFile }) {
  if (data.newer || data.total) return null;
  if (filtered) return paragraph("card", "No match passes these filters. Remove one.");
  if (!data.ready) return paragraph("card", "The matches are being read.");
  if (isFile) return paragraph("card", "No post of the file matches, of those compared so far.");
  return paragraph("card", "Nothing has matched in the last day. Matches show here by themselves.");
}

function Pages({ data, hold, setHold }) {
  const skip = hold?.skip ?? 0;
  if (!data || (data.total <= STORIES_PER_PAGE && !skip)) return null;
  const turn = (to) => {
    setHold({ up_to: hold?.up_to ?? data.up_to, skip: to, by: "page" });
    scrollTo({ top: 0 });
  };
  const end = Math.min(skip + STORIES_PER_PAGE, data.total);
  return html`<div class="row">
    <button type="button" disabled=${!skip}
      onClick=${() => turn(skip - STORIES_PER_PAGE)}>Newer</button>
    <button type="button" disabled=${skip + STORIES_PER_PAGE >= data.total}
      onClick=${() => turn(skip + STORIES_PER_PAGE)}>Older</button>
    <span class="quiet">${number(skip + 1)} to ${number(end)} of ${number(data.total)}</span>
  </div>`;
}

function Filters({ now, data, change, isFile }) {
  const set = (name) => (value) => {
    const isSet = ([, each]) => each !== "" && each !== undefined;
    const next = Object.fromEntries(Object.entries({ ...now, [name]: value }).filter(isSet));
    change(Object.keys(next).length ? next : UNFILTERED);
  };
  const select = (label, name, options) =>
    html`<${Select} label=${label} value=${now[name] ?? ""} options=${options} set=${set(name)} />`;
  const selectName = (label, name, names = []) => {
    const own = now[name];
    const all = !own || names.includes(own) ? names : [own, ...names];
    return select(label, name, [["", "any"], ...all.map((each) => [each, each])]);
  };
  const [isOpen] = useState(FOLDED.some((name) => name in now));
  const bounds = { type: "number", min: "-1", max: "1", step: "0.001", class: "short" };
  const all = html`<button type="button" onClick=${() => change(UNFILTERED)}>All</button>`;
  return html`<form class="row filters" role="search" aria-label="Filters"
    onSubmit=${(event) => event.preventDefault()}>
    <${DelayedInput} label="Words or author" now=${now.text} set=${set("text")} type="search"
      maxlength="100" />
    ${(!isFile || data?.since) && html`<${TimeRange} now=${now} data=${data} change=${change} />`}
    <details open=${isOpen}><summary>Filters</summary><div class="row">
    ${select("Order", "order", ORDERS)}
    ${selectName("Language", "lang", data?.languages)}
    ${selectName("Platform", "platform", data?.platforms)}
    <${DelayedInput} label="Score from" now=${now.least} set=${set("least")} ...${bounds} />
    <${DelayedInput} label="to" now=${now.most} set=${set("most")} ...${bounds} />
    <label class="row"><input type="checkbox" checked=${!!now.new}
      onChange=${(event) => set("new")(event.target.checked || "")} /> New stories only</label>
    <label class="row"><input type="checkbox" checked=${!!now.link}
      onChange=${(event) => set("link")(event.target.checked || "")} /> With a link to the story</label>
    </div></details>${now !== UNFILTERED && all}</form>`;
}

// The last minutes, hours or day (of a file: before its newest post), or from one moment to another.
function TimeRange({ now, data, change }) {
  const { minutes, from, to, ...rest } = now;
  const isFromUntil = from !== undefined || to !== undefined;
  const set = (range) => {
    const next = { ...rest, ...range };
    change(Object.keys(next).length ? next : UNFILTERED);
  };
  const choose = (value) => {
    if (value === FROM_UNTIL) return set({ from: toMinute(new Date(data?.since ?? Date.now())) });
    set(value && { minutes: value });
  };
  const options = [["", "all"], ...SPANS, [FROM_UNTIL, "from … until"]];
  const moments = html`<${Moment} label="from" at=${from} set=${(at) => set({ from: at, ...(to && { to }) })} />
    <${Moment} label="until" at=${to} set=${(at) => set({ ...(from && { from }), to: at })} />`;
  return html`<${Select} label="Time" value=${isFromUntil ? FROM_UNTIL : minutes ?? ""}
      options=${options} set=${choose} />${isFromUntil && moments}`;
}

const MINUTE_MS = 60_000;
const MINUTE_CHARS = "2026-01-01T00:00".length;
const toMinute = (moment) => `${moment.toISOString().slice(0, MINUTE_CHARS)}Z`;

// A moment in the reader's time zone; the address has it in UTC.
function Moment({ label, at, set }) {
  const moment = new Date(at ?? NaN);
  const local = new Date(moment - moment.getTimezoneOffset() * MINUTE_MS);
  const value = isNaN(moment) ? "" : local.toISOString().slice(0, MINUTE_CHARS);
  const change = ({ target }) => target.value && set(toMinute(new Date(target.value)));
  return html`<label>${label}${" "}<input type="datetime-local" value=${value}
    title="in your time zone" onChange=${change} /></label>`;
}

// An input whose value takes effect once nobody types.
function DelayedInput({ label, now = "", set, ...rest }) {
  const [text, setText] = useState(now);
  const timer = useRef(0);
  const latest = useRef();
  latest.current = set;
  useEffect(() => setText(now), [now]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (event) => {
    const { value, validity } = event.target;
    setText(value);
    clearTimeout(timer.current);
    if (validity.valid) timer.current = setTimeout(() => latest.current(value), TYPING_MS);
  };
  return html`<label>${label}${" "}
    <input value=${text} onInput=${input} autocomplete="off" ...${rest} /></label>`;
}

function Story({ event, post, threshold }) {
  const [whole, setWhole] = useState(false);
  const [copies, setCopies] = useState(false);
  const more = post.count - 1;
  const enter = (key) => {
    if (key.key !== "Enter" || key.target !== key.currentTarget) return;
    key.preventDefault();
    setWhole(!whole);
  };
  const isBelow = threshold !== null && !post.link && post.score < threshold; // The threshold was raised since.
  const { count, labels, why, deleted } = post;
  const version = [event, count, labels, post.score, why, whole, copies, isBelow, deleted];
  const same = `${number(more)} more that ${more === 1 ? "says" : "say"} the same`;
  const others = html`<button type="button" class="link" aria-expanded=${copies} aria-label=${same}
    title=${same} onClick=${() => setCopies(!copies)}>+${number(more)}</button>`;
  const press = ({ target }) =>
    target.closest("a, button, details") || String(getSelection()) || setWhole(!whole);
  return useMemo(
    () => html`<li><article tabindex="0" data-card=${keyOf(post)} onKeyDown=${enter}
      class=${`card match ${isBelow ? "below" : ""} ${whole || copies ? "open" : ""}`}
      onClick=${press} aria-label=${`${post.platform} post by ${post.author || "somebody"}`}>
      <${Post} post=${post} whole=${whole} toggle=${() => setWhole(!whole)}>
        ${isBelow && html`<span class="badge">below the threshold now</span>`}
        ${more > 0 && others}<//>
      ${whole && html`<${Whole} key=${deleted} event=${event} post=${post} />`}
      ${copies && html`<${Copies} event=${event} post=${post} />`}
    </article></li>`,
    [JSON.stringify(version)],
  );
}

const LABEL_COLOURS = { on: "good", off: "bad" };

// One line; the score is the way to its explanation.
function Post({ post, whole, toggle, children }) {
  const came = post.at && html`came <${Time} at=${post.at} />`;
  const reach = `the score; ${score(post.threshold)} has to be reached`;
  const badge = ({ label, by }) =>
    html`<span class=${`badge ${LABEL_COLOURS[label] ?? ""}`}>${label}: <bdi>${by}</bdi></span>`;
  const aside = post.card?.title || post.alt?.[0]; // Open, it is shown whole.
  const value = toggle
    ? html`<button type="button" class="link score" aria-expanded=${whole} title=${reach}
        onClick=${toggle}>${score(post.score)}</button>`
    : html`<span class="score" title=${reach}>${score(post.score)}</span>`;
  return html`<div class="line">${value}
    <p class="text" dir="auto" lang=${LANGUAGE.test(post.lang) ? post.lang : undefined}>
      ${post.deleted ? html`<span class="quiet">The post was deleted.</span>`
        : html`<${HighlightedText} text=${post.text} why=${post.why} />`}
      ${aside && html`<span class="aside"> ▸ <${HighlightedText} text=${aside} why=${post.why} /></span>`}</p>
    <div class="row about">
      ${post.labels.map(badge)}
      ${post.platform !== "plain" && html`<span class="badge">${post.platform}</span>`}
      ${post.author && html`<bdi class="author">${post.author}</bdi>`}
      <span class="quiet">${post.created_at ? html`<${Time} at=${post.created_at} />` : came}
        ${post.lang && ` · ${post.lang}`}</span>
      ${post.link && html`<span class="badge" title="It matches at any score.">links to the story</span>`}
      ${!post.new && html`<span class="quiet">repeats a post</span>`}
      ${post.url && html`<${ExternalLink} href=${post.url} data-own>open<//>`}
      ${children}</div>
    <div class="extras"><${Attachments} post=${post} /></div></div>`;
}

// All of a post's text, and its score with each of the event's seeds.
function Whole({ event, post }) {
  const question = { event, platform: post.platform, id: post.id };
  const [full, error] = useAnswer("/api/match", question);
  if (!full) return html`<${LoadStatus} error=${error} />`;
  const words = (why) => why.map(([word, part]) => html`<bdi>${word}</bdi> ${score(part)} `);
  const row = ({ id, title, score: own, threshold, why }) => {
    const name = html`<bdi>${title || id}</bdi>
      ${title && html` <small class="quiet"><bdi>${id}</bdi></small>`}`;
    return [name, score(own), score(threshold), words(why)];
  };
  const { events } = full;
  const others = `; matches ${plural(events.length, "event")}: ${events.join(", ")}`;
  const text = html`<p class="text" dir="auto">
    <${HighlightedText} text=${full.text} why=${full.why} /></p>`;
  return html`${(full.cut || post.cut) && text}
    <${Table} name="Scores" heads=${["Seed", "#Score", "#Threshold", "Words"]}
      rows=${full.seeds.map(row)} />
    <p class="quiet">${full.at && html`Posted <${Time} at=${full.at} />`}
      ${events.length > 1 && others}</p>
    <details><summary>Details</summary><p class="quiet">Post <bdi>${full.id}</bdi>, from
      ${" "}${full.source}; seeds ${full.seed_set}, model ${full.model.slice(0, 12)}</p></details>`;
}

function Copies({ event, post }) {
  const question = { event, group: post.group };
  const [posts, error] = useAnswer("/api/story", question, ["matches"], COPIES_REFRESH_MS);
  if (!posts) return html`<${LoadStatus} error=${error} />`;
  const others = posts.filter((each) => keyOf(each) !== keyOf(post));
  const left = post.count - 1 - others.length;
  return html`<ul class="plain copies">
      ${others.map((each) => html`<li key=${keyOf(each)}><${Post} post=${each} /></li>`)}</ul>
    ${paragraph("quiet", left > 0 && `and ${number(left)} more, which are only counted`)}`;
}
