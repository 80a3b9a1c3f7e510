// An article on its way to being a seed: pasted, fetched or out of a file; read, tried, then published.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { act, useAnswer } from "/lib/api.js";
import { Do, Refused, Waiting, plural, tell } from "/lib/ui.js";
import { Draft } from "/views/seeds/draft.js";
import { Advice, Events, Field, asked, seedPage } from "/views/seeds/parts.js";
import { Tried } from "/views/seeds/tried.js";

const LARGEST = 5.5 * 2 ** 20; // bytes of a file that fit into a question
const MOST_FILES = 50;
const CALM = 500; // milliseconds without a key, after which a change is looked at

// Files that were dropped on another page of seeds, for this one to read.
let waiting = [];
export const dropped = (files) => {
  waiting = files;
  dispatchEvent(new Event("newsift-files"));
};

const base64 = (file) =>
  new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => fail(new Error(`${file.name}: cannot be read`));
    reader.readAsDataURL(file);
  });

async function readFile(file) {
  if (!file.size) throw new Error(`${file.name}: is empty`);
  if (file.size > LARGEST) throw new Error(`${file.name}: is larger than 5.5 MiB; give smaller ones`);
  return (await act("/api/seeds/read", { name: file.name, content: await base64(file) })).answer;
}

let made = 0;
const drafted = (found) => found.map((each) => ({ ...each, key: (made += 1), record: JSON.parse(each.value), edits: {} }));

export function Add() {
  const [drafts, set] = useState([]);
  const [refusals, refuse] = useState([]);
  const [done, finish] = useState(null);
  const [busy, work] = useState("");
  const [listed] = useAnswer("/api/seeds", { most: 0 }, ["seeds"]);
  const take = async (what, jobs) => {
    refuse([]);
    finish(null);
    for (const job of jobs) {
      work(what);
      try {
        const found = drafted(await job());
        set((all) => [...all, ...found]);
      } catch (error) {
        refuse((all) => [...all, error]);
      }
    }
    work("");
  };
  const files = (chosen) => {
    if (chosen.length > MOST_FILES) tell(`${chosen.length} files: the first ${MOST_FILES} are read`, true);
    return take("Reading", chosen.slice(0, MOST_FILES).map((file) => () => readFile(file)));
  };
  useEffect(() => {
    const come = () => waiting.length && files(waiting.splice(0));
    come();
    addEventListener("newsift-files", come);
    return () => removeEventListener("newsift-files", come);
  }, []);
  useEffect(() => document.querySelector("main").focus({ preventScroll: true }), [drafts.length > 0, !!done]);
  return html`<p><a href="#/seeds">All seeds</a></p><h1>Add an article</h1>
    <${Events} names=${listed?.events} />
    ${done ? html`<${Published} done=${done} again=${() => finish(null)} />` : html`
      ${!drafts.length && html`<${Sources} take=${take} files=${files} busy=${busy} />`}
      <div role="status">${busy && html`<${Waiting} what=${busy} />`}</div>
      ${refusals.map((error) => html`<${Refused} error=${error} />`)}
      ${drafts.length > 0 && html`<${Drafts} drafts=${drafts} set=${set} common=${listed?.common} finish=${finish} />`}`}`;
}

function Sources({ take, files, busy }) {
  const [text, write] = useState("");
  const [url, point] = useState("");
  const read = (question) => async () => (await act("/api/seeds/read", question)).answer;
  const go = (event) => {
    event.preventDefault();
    if (url.trim()) take("Fetching the page", [read({ url })]);
  };
  return html`<p>Nothing is published before you have seen it. Three articles of an event find about twice as many posts as one.</p>
    <div class="card form"><${Field} label="Paste a text" note="a first line that begins with # is the title"><textarea rows="8" value=${text} onInput=${(event) => write(event.target.value)}></textarea><//>
      <${Do} kind="main" disabled=${!text.trim() || busy} run=${() => take("Reading", [read({ text })])}>Read the text<//></div>
    <form class="card form" onSubmit=${go}><${Field} label="Or the address of an article"><input type="url" placeholder="https://" maxlength="2048" value=${url} onInput=${(event) => point(event.target.value)} /><//>
      <button class="main" disabled=${!url.trim() || busy}>Fetch the page</button></form>
    <div class="card form"><${Field} label="Or files" note="texts, Markdown, JSON, saved pages; they may be dropped anywhere on this page too">
      <input type="file" multiple accept=".txt,.md,.markdown,.html,.htm,.xhtml,.json,.jsonl" disabled=${!!busy} onChange=${(event) => files([...event.target.files])} /><//></div>`;
}

// The drafts, looked at again after each change, and the way to publish them.
function Drafts({ drafts, set, common, finish }) {
  const [event, name] = useState("");
  const sent = event.trim() ? drafts.map((draft) => ({ ...draft, edits: { ...draft.edits, event: event.trim() } })) : drafts;
  const [problem, fail] = useState(null);
  const [force, forced] = useState(false);
  const [seen, see] = useState(0);
  const told = JSON.stringify(sent.map(({ id, edits, key }) => [id, edits, key]));
  const turn = useRef(0);
  const look = async () => {
    const mine = (turn.current += 1);
    try {
      const { answer } = await act("/api/seeds/check", { drafts: asked(sent) });
      if (mine !== turn.current) return;
      set((all) => all.map((draft, n) => ({ ...draft, check: answer[n], of: told })));
      fail(null);
    } catch (error) {
      if (mine === turn.current) fail(error);
    }
  };
  useEffect(() => {
    turn.current += 1;
    const timer = setTimeout(look, seen ? CALM : 0);
    see(1);
    return () => clearTimeout(timer);
  }, [told]);
  const away = drafts.some((draft) => draft.check?.away?.includes("loaded"));
  useEffect(() => {
    const timer = away && setTimeout(look, 3000);
    return () => clearTimeout(timer);
  }, [away, drafts]);
  const fresh = !problem && drafts.every((draft) => draft.of === told);
  const refused = drafts.some((draft) => draft.check?.refused);
  const doubted = drafts.some((draft) => draft.check?.doubt);
  const publish = async () => {
    try {
      const { answer } = await act("/api/seeds/publish", { drafts: asked(sent), force });
      set([]);
      finish(answer);
    } catch (error) {
      tell(error.message, true);
      look();
    }
  };
  const change = (key, what) => set((all) => all.map((draft) => (draft.key === key ? { ...draft, ...what } : draft)));
  const own = [...new Set(drafts.map(({ record, id }) => record.event || id))];
  return html`<div class="card form"><${Field} label="Event" note=${`of ${drafts.length > 1 ? `all ${drafts.length} articles` : "this article"}; nothing: ${own.slice(0, 3).join(", ")}${own.length > 3 ? ` and ${own.length - 3} more` : ""}`}><input list="events" maxlength="240" value=${event} onInput=${(typed) => name(typed.target.value)} /><//></div>
    ${drafts.map((draft) => html`<${Draft} key=${draft.key} draft=${draft} event=${event.trim()} common=${common} change=${(what) => change(draft.key, what)} leave=${() => set((all) => all.filter((each) => each !== draft))} />`)}
    ${problem && html`<${Refused} error=${problem} /><${Do} run=${look}>Look again<//>`}
    ${fresh && !refused && html`<${Tried} drafts=${sent} told=${told} />`}
    ${doubted && html`<label class="row"><input type="checkbox" checked=${force} onChange=${(event) => forced(event.target.checked)} /> Publish all the same what looks like no article, or has fewer than 40 words</label>`}
    <div class="row sticky"><${Do} kind="main" run=${publish} disabled=${!fresh || refused || (doubted && !force)}>Publish ${plural(drafts.length, "seed")}<//>
      <${Do} run=${() => set([])}>Begin anew<//><span class="quiet">Nothing is published yet.</span></div>`;
}

// What was published, and what would make more of it.
function Published({ done, again }) {
  return html`<section role="status">${done.seeds.map((seed) => html`<p class="card"><a class="said" href=${seedPage(seed.id)}>${seed.id}</a> <code>${seed.version}</code> ${seed.published}: it is on the topic, and every worker compares posts with it.</p>`)}
    <${Advice} events=${done.events} />
    <div class="row"><${Do} kind="main" run=${again}>Add another<//> <a class="button" href="#/seeds">All seeds</a></div></section>`;
}
