// The matches of an event as they arrive: stories, each with the posts that say the same.
import { html, useEffect, useMemo, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { number, plural, Refused, Time, useKeys, Waiting } from "/lib/ui.js";
import { Filters, UNFILTERED } from "/views/event/filters.js";
import { keyOf, Story } from "/views/event/story.js";

const SHOWN = 50; // stories at once
const APART_MS = 500; // between two questions
const MANY = 5000; // stories of an event that the desk keeps

// The list: live it is the last answer; held it stays as it is, but for counts and marks.
function useStories(event, filters) {
  const [held, hold] = useState(null); // {seen, skip, by}
  const rows = useRef({ list: [] });
  const question = useMemo(() => ({ event, ...filters, seen: held?.seen, skip: held?.skip, count: SHOWN }), [event, filters, held]);
  const [answer, error] = useAnswer("/api/matches", question, ["matches", "labels"], APART_MS);
  if (answer && answer !== rows.current.answer) {
    const fresh = new Map(answer.stories.map((each) => [keyOf(each), each]));
    const stays = held && rows.current.of === held.skip;
    const list = stays ? rows.current.list.map((old) => fresh.get(keyOf(old)) ?? old) : answer.stories;
    rows.current = { list, answer, of: answer.skip };
  }
  return { error, held, hold, stories: rows.current.list, told: rows.current.answer };
}

// Cards are walked by j and k; one in focus holds the list.
function useWalk(list) {
  const step = (by) => {
    const cards = [...(list.current?.querySelectorAll("article[data-card]") ?? [])];
    const at = cards.indexOf(document.activeElement?.closest("article[data-card]"));
    cards[Math.max(0, Math.min(cards.length - 1, at + by))]?.focus();
  };
  const follow = (event) => event.repeat || document.activeElement?.closest("article[data-card]")?.querySelector("a[target]")?.click();
  return { j: () => step(1), k: () => step(-1), o: follow };
}

// Whether what stands above the list can be seen: below it the list is held.
function useAbove(mark, changed) {
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => changed.current(entry.isIntersecting));
    watch.observe(mark.current);
    return () => watch.disconnect();
  }, []);
}

export default function Matches({ event }) {
  const [filters, filter] = useState(UNFILTERED);
  const { error, held, hold, stories, told } = useStories(event, filters);
  const mark = useRef(), list = useRef(), changed = useRef();
  const stay = (by) => told && !held && hold({ seen: told.seen, skip: 0, by });
  const live = () => {
    hold(null);
    if (document.activeElement?.closest("article, .fresh")) document.querySelector("main").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  };
  changed.current = (above) => (above ? held?.by === "scroll" && hold(null) : stay("scroll"));
  useAbove(mark, changed);
  useKeys({ ...useWalk(list), p: () => (held ? live() : stay("pause")) });
  return html`<${Filters} now=${filters} told=${told} change=${(next) => (hold(null), filter(next))} />
    <${Refused} error=${error} />
    <div class="row bar" ref=${mark}>
      <${Count} told=${told} shown=${stories.length} />
      <button type="button" aria-pressed=${!!held} onClick=${() => (held ? live() : stay("pause"))}>${held ? "Go on" : "Pause"} <kbd>p</kbd></button>
    </div>
    ${held && told?.newer > 0 && html`<button type="button" class="main fresh" onClick=${live}>${number(told.newer)}${told.newer >= MANY ? " or more" : ""} new</button>`}
    ${!told && !error && html`<${Waiting} />`}
    ${told && !stories.length && html`<${Nothing} told=${told} filtered=${filters !== UNFILTERED} />`}
    <ol class="plain" ref=${list} onfocusin=${(moved) => moved.target.closest("article") && stay("focus")}>
      ${stories.map((each) => html`<${Story} key=${keyOf(each)} event=${event} post=${each} />`)}
    </ol>
    <${Pages} told=${told} held=${held} hold=${hold} />
    <p class="quiet keys"><kbd>j</kbd> <kbd>k</kbd> next and last, <kbd>Enter</kbd> all of it, <kbd>o</kbd> open the post, <kbd>p</kbd> pause</p>`;
}

function Count({ told, shown }) {
  if (!told) return html`<span class="grow"></span>`;
  return html`<span class="grow quiet">${plural(Math.max(told.total, shown), "story", "stories")}${told.ready ? "" : ", still reading"}, since <${Time} at=${told.since} />${told.away && html` <span class="bad">the topic is not followed: ${told.away}</span>`}</span>`;
}

function Nothing({ told, filtered }) {
  if (told.newer) return null;
  if (filtered) return html`<p class="card">No match is like that. Take a filter away.</p>`;
  return html`<p class="card">${told.ready ? "Nothing has matched in the last day. Matches show here by themselves." : "The matches are being read."}</p>`;
}

function Pages({ told, held, hold }) {
  const skip = held?.skip ?? 0;
  if (!told || (told.total <= SHOWN && !skip)) return null;
  const turn = (to) => {
    hold({ seen: held?.seen ?? told.seen, skip: to, by: "page" });
    scrollTo({ top: 0 });
  };
  return html`<div class="row">
    <button type="button" disabled=${!skip} onClick=${() => turn(skip - SHOWN)}>Newer</button>
    <button type="button" disabled=${skip + SHOWN >= told.total} onClick=${() => turn(skip + SHOWN)}>Older</button>
    <span class="quiet">${number(skip + 1)} to ${number(Math.min(skip + SHOWN, told.total))} of ${number(told.total)}</span>
  </div>`;
}
