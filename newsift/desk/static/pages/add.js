// New seeds: articles are pasted, fetched or dropped as files, then checked, tried and published.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { act, base64, useAnswer, useLatest } from "/lib/api.js";
import { Button, ErrorText, eventAddress, ExternalLink, Field } from "/lib/ui.js";
import { HighlightedText, LoadingText, notify, number, paragraph, plural } from "/lib/ui.js";
import { quoted, score, useMounted } from "/lib/ui.js";
import { defaultThreshold, ENDS_NOTE, EventNames } from "/lib/seeds.js";
import { heaviestWords, seedAddress, thresholdOf } from "/lib/seeds.js";

const MAX_FILE_BYTES = 5.5 * 2 ** 20; // A request has room for so much in base64.
const MAX_FILES = 50;
const ACCEPT = ".txt,.md,.markdown,.html,.htm,.xhtml,.json,.jsonl";
const TYPING_MS = 500; // Drafts are checked this long after the last key.
const LOADING_MS = 3000; // Checks are repeated while the model is loaded.
const MAX_TEXT_CHARS = 4000;
const POST_CHARS = 500;

// Dropped files wait here until this page reads them.
const dropped = [];
export function dropFiles(files) {
  dropped.push(...files);
  dispatchEvent(new Event("newsift-files"));
}

const openDrafts = new Map(); // By project; they outlive a look at another page.
const draftsOf = (project) => openDrafts.get(project) ?? [];

function changeDrafts(project, change) {
  openDrafts.set(project, change(draftsOf(project)));
  dispatchEvent(new Event("newsift-drafts"));
}

addEventListener("beforeunload", (event) => {
  if ([...openDrafts.values()].some((drafts) => drafts.length)) event.preventDefault();
});

const readArticles = async (question, options) =>
  (await act("/api/seeds/read", question, options)).answer;

async function readFile(file) {
  if (!file.size) throw new Error(`${file.name}: is empty`);
  if (file.size > MAX_FILE_BYTES)
    throw new Error(`${file.name}: is larger than 5.5 MiB; give smaller ones`);
  return readArticles({ name: file.name, content: await base64(file) }, { signal: null });
}

const toDraft = (article) => ({
  ...article,
  key: crypto.getRandomValues(new Uint32Array(1))[0],
  record: JSON.parse(article.value),
  edits: {},
});

// Drafts as they are sent: the article that was read, the changes, and the record to replace.
const toQuestion = (drafts) =>
  drafts.map(({ id, value, source, doubt, edits, check }) => {
    const sent = { ...edits };
    if ("threshold" in sent) sent.threshold = thresholdOf(sent.threshold);
    return { id, value, source, doubt, edits: sent, etag: check?.etag ?? "" };
  });

export function Add({ session }) {
  const drafts = useLatest("newsift-drafts", () => draftsOf(session.project));
  const setDrafts = (change) => changeDrafts(session.project, change);
  const mounted = useMounted();
  const [errors, setErrors] = useState([]);
  const [result, setResult] = useState(null);
  const [busy, setBusy] = useState("");
  const [list] = useAnswer("/api/seeds", { most: 0 }, ["seeds"]);
  const run = async (what, jobs) => {
    setErrors([]);
    setResult(null);
    setBusy(what);
    for (const job of jobs) {
      try {
        const articles = await job();
        setDrafts((all) => [...all, ...articles.map(toDraft)]);
      } catch (error) {
        if (mounted.current) setErrors((all) => [...all, error]);
        else notify(error.message, true);
      }
    }
    setBusy("");
  };
  const readFiles = (files) => {
    const jobs = files.slice(0, MAX_FILES).map((file) => () => readFile(file));
    if (jobs.length < files.length) {
      notify(`${files.length} files: the first ${MAX_FILES} are read`, true);
    }
    return run("Reading", jobs);
  };
  useEffect(() => {
    const take = () => dropped.length && readFiles(dropped.splice(0));
    take();
    addEventListener("newsift-files", take);
    return () => removeEventListener("newsift-files", take);
  }, []);
  const focus = () => document.querySelector("main").focus({ preventScroll: true });
  useEffect(focus, [drafts.length > 0, !!result]);
  const head = html`<p><a href="#/seeds">All seeds</a></p><h1>Add an article</h1>
    <${EventNames} names=${list?.events} />`;
  const review = html`<${Drafts} drafts=${drafts} setDrafts=${setDrafts} setResult=${setResult}
    configured=${list?.configured} />`;
  if (result) return html`${head}<${Published} result=${result} again=${() => setResult(null)} />`;
  return html`${head}
    ${!drafts.length && html`<${Sources} run=${run} readFiles=${readFiles} busy=${busy} />`}
    <div role="status">${busy && html`<${LoadingText} what=${busy} />`}</div>
    ${errors.map((error) => html`<${ErrorText} error=${error} />`)}
    ${drafts.length > 0 && review}`;
}

function Sources({ run, readFiles, busy }) {
  const [text, setText] = useState("");
  const [url, setUrl] = useState("");
  const fetchPage = (event) => {
    event.preventDefault();
    if (url.trim()) run("Fetching the page", [() => readArticles({ url })]);
  };
  return html`<p>Nothing is published before you have seen it. Three articles of an event find about
      twice as many posts as one.</p>
    <div class="card form">
      <${Field} label="Paste a text" note="a first line that begins with # is the title">
        <textarea rows="8" value=${text} onInput=${(event) => setText(event.target.value)}>
          </textarea>
      <//>
      <${Button} kind="main" disabled=${!text.trim() || busy}
        run=${() => run("Reading", [() => readArticles({ text })])}>Read the text<//></div>
    <form class="card form" onSubmit=${fetchPage}>
      <${Field} label="Or the address of an article">
        <input type="url" placeholder="https://" maxlength="2048" value=${url}
          onInput=${(event) => setUrl(event.target.value)} /><//>
      <button class="main" disabled=${!url.trim() || busy}>Fetch the page</button></form>
    <div class="card form">
      <${Field} label="Or files"
        note="texts, Markdown, JSON, saved pages; they may be dropped anywhere on this page too">
        <input type="file" multiple accept=${ACCEPT} disabled=${!!busy}
          onChange=${(event) => readFiles([...event.target.files])} /><//></div>`;
}

// The drafts are checked after each change, before they can be published.
function Drafts({ drafts, setDrafts, configured, setResult }) {
  const [event, setEvent] = useState("");
  const [error, setError] = useState(null);
  const [force, setForce] = useState(false);
  const latest = useRef(0); // number of the latest check
  const mounted = useMounted();
  const name = event.trim();
  const named = drafts.map((draft) => ({ ...draft, edits: { ...draft.edits, event: name } }));
  const sent = name ? named : drafts;
  const version = JSON.stringify(sent.map(({ id, edits, key }) => [id, edits, key]));
  const check = async () => {
    const own = (latest.current += 1);
    try {
      const { answer } = await act("/api/seeds/check", { drafts: toQuestion(sent) });
      if (own !== latest.current || !mounted.current) return;
      setDrafts((all) => all.map((draft, n) => ({ ...draft, check: answer[n], version })));
      setError(null);
    } catch (failure) {
      if (own === latest.current) setError(failure);
    }
  };
  useEffect(() => {
    const timer = setTimeout(check, latest.current ? TYPING_MS : 0);
    latest.current += 1;
    return () => clearTimeout(timer);
  }, [version]);
  const isLoading = drafts.some((draft) => draft.check?.loading);
  useEffect(() => {
    const timer = isLoading && setTimeout(check, LOADING_MS);
    return () => clearTimeout(timer);
  }, [isLoading, drafts, version]);
  const isChecked = !error && drafts.every((draft) => draft.version === version);
  const isRefused = drafts.some((draft) => draft.check?.refused);
  const isDoubted = drafts.some((draft) => draft.check?.doubt);
  const publish = async () => {
    try {
      const question = { drafts: toQuestion(sent), force };
      const { answer } = await act("/api/seeds/publish", question);
      const published = new Set(drafts.map(({ key }) => key));
      setDrafts((all) => all.filter(({ key }) => !published.has(key)));
      setResult(answer);
      if (!mounted.current) notify(`${plural(answer.seeds.length, "seed")} published`);
    } catch (failure) {
      notify(failure.message, true);
      if (mounted.current) check();
    }
  };
  const edit = (key) => (changes) =>
    setDrafts((all) => all.map((each) => (each.key === key ? { ...each, ...changes } : each)));
  const drop = (key) => setDrafts((all) => all.filter((each) => each.key !== key));
  const own = [...new Set(drafts.map(({ record, id }) => record.event || id))];
  const more = own.length > 3 ? ` and ${own.length - 3} more` : "";
  const articles = drafts.length > 1 ? `all ${drafts.length} articles` : "this article";
  const scope = `of ${articles}; nothing: ${own.slice(0, 3).join(", ")}${more}`;
  const disabled = !isChecked || isRefused || (isDoubted && !force);
  const draftRow = (draft) =>
    html`<${Draft} key=${draft.key} draft=${draft} event=${name} configured=${configured}
      edit=${edit(draft.key)} drop=${() => drop(draft.key)} />`;
  const forceBox = html`<label class="row"><input type="checkbox" checked=${force}
    onChange=${(change) => setForce(change.target.checked)} /> Publish all the same what looks like
    no article, has fewer than 40 words or is in another language</label>`;
  return html`<div class="card form"><${Field} label="Event" note=${scope}>
      <input list="events" maxlength="240" value=${event}
        onInput=${(typed) => setEvent(typed.target.value)} /><//></div>
    ${drafts.map(draftRow)}
    ${error && html`<${ErrorText} error=${error} /><${Button} run=${check}>Look again<//>`}
    ${isChecked && !isRefused && html`<${Trial} drafts=${sent} version=${version} />`}
    ${isDoubted && forceBox}
    <div class="row sticky"><${Button} kind="main" run=${publish} disabled=${disabled}>
        Publish ${plural(drafts.length, "seed")}<//>
      <${Button} run=${() => setDrafts(() => [])}>Start over<//>
      <span class="quiet">Nothing is published yet.</span></div>`;
}

function Draft({ draft, event, configured, edit, drop }) {
  const { id, record, edits, check, doubt, source } = draft;
  const now = { ...record, ...edits };
  const text = String(now.text ?? "");
  const field = (name) => ({
    value: now[name] ?? "",
    onInput: ({ target: { value } }) => {
      const { [name]: _, ...rest } = edits;
      const isSame = name in record ? String(record[name]) === value : value === "";
      edit({ edits: isSame ? rest : { ...rest, [name]: value } });
    },
  });
  const words = plural(text.split(/\s+/).filter(Boolean).length, "word");
  const left = `${number(text.length - MAX_TEXT_CHARS)} letters more`;
  const link = html` · <${ExternalLink} href=${record.url}>${quoted(record.url)}<//>`;
  return html`<article class="card form" aria-label=${`Draft of ${source}`}>
    <h2 class="quoted">${now.title || id}</h2>
    <p class="quiet">from ${quoted(source)}${record.url && link} · ${words} ·
      event ${quoted(event || record.event || id)}</p>
    <${Doubts} check=${check} doubt=${doubt} keys=${draft.ignored_keys} />
    <div class="fields">
      <${Field} label="Title"><input maxlength="1024" ...${field("title")} /><//>
      <${Field} label="Id"><input maxlength="256" value=${id}
        onInput=${(typed) => edit({ id: typed.target.value })} /><//>
      <${Field} label="Threshold" note=${defaultThreshold(check?.auto_threshold, configured)}>
        <input inputmode="decimal" ...${field("threshold")} /><//>
      <${Field} label="Ends" note=${ENDS_NOTE}><input maxlength="64" ...${field("expires_at")} />
        <//>
    </div>
    <details><summary>Change the text</summary>
      <${Field} label="Text"><textarea rows="12" ...${field("text")}></textarea><//></details>
    <section aria-label="Text">
      <${HighlightedText} text=${text.slice(0, MAX_TEXT_CHARS)} why=${check?.words ?? []} />
      ${text.length > MAX_TEXT_CHARS && html`<span class="quiet"> … and ${left}</span>`}</section>
    ${check?.words?.length > 0 && heaviestWords(check.words)}
    <div class="row"><${Button} run=${drop} aria-label=${`Leave ${id} out`}>Leave it out<//></div>
  </article>`;
}

function Doubts({ check, doubt, keys: ignored }) {
  const { refused, notes, published, error, doubt: reason } = check ?? { doubt };
  const verb = /^\d/.test(reason) ? "has" : "looks like";
  const remedy = "Correct the text, or publish it all the same below.";
  const keys = ignored?.length > 0 && `Left out, as a seed has no such keys: ${ignored.join(", ")}`;
  const replaces = "A seed of this id is there already: this would take its place.";
  return html`${paragraph("refused", refused, "alert")}
    ${paragraph("refused", reason && `This ${verb} ${reason}. ${remedy}`, "alert")}
    ${notes?.map((text) => paragraph("warn", `It ${text}.`))}
    ${paragraph("warn", published === "replaced" && replaces)}
    ${paragraph("quiet", published === "unchanged" && "This very seed is on the topic already.")}
    ${paragraph("quiet quoted", keys)}${paragraph("quiet", error)}`;
}

// What the events of new articles would have matched in the last hours, or of the file.
function Trial({ drafts, version }) {
  const [[answer, error], setState] = useState([]);
  useEffect(() => {
    let gone = false;
    setState([]);
    act("/api/seeds/try", { drafts: toQuestion(drafts) }).then(
      (reply) => gone || setState([reply.answer]),
      (failure) => gone || setState([null, failure]),
    );
    return () => (gone = true);
  }, [version]);
  const row = ([event, matches]) => {
    const { others } = answer.events.find((each) => each.event === event);
    return html`<${EventMatches} event=${event} matches=${matches} others=${others} />`;
  };
  return html`<section class="card" aria-label="What it would have matched">
    <h2>What it would have matched</h2><${ErrorText} error=${error} />
    ${!answer && !error && html`<${LoadingText} what="Trying it on the posts" />`}
    ${answer && Object.entries(answer.matches).map(row)}
    ${answer && html`<${Advice} events=${answer.events} />`}</section>`;
}

function EventMatches({ event, matches, others }) {
  const { posts, hours, whole, there, matched, gained, best } = matches;
  const name = quoted(event);
  const span = hours ? `of the last ${hours} hours` : "of the file";
  const later = !hours && " yet: they are read once there is an article";
  if (!posts) return html`<p>There is no post ${span} to try ${name} on${later}.</p>`;
  const sample = `a sample of ${number(posts)} of ${plural(there, "post")}`;
  const many = (count) => (count ? number(count) : "none");
  const post = (each) =>
    html`<li class="row post"><span class="badge">${score(each.score)}</span>
      ${quoted(each.text.slice(0, POST_CHARS))}</li>`;
  return html`<p><strong>${name}
    </strong>: ${many(matched)} of ${whole ? plural(posts, "post") : sample}
      ${" "}${span} would have matched
      ${others > 0 && `, ${many(gained)} only by what is added`}.</p>
    <ol class="plain">${best.map(post)}</ol>`;
}

// Advice for events with few articles, and for those that could learn a profile.
function Advice({ events }) {
  const few = ({ event, seeds }) =>
    html`<p>The event <strong class="quoted">${event}</strong> has ${plural(seeds, "article")}: with
      three an event found 10 of its 11 posts, with one 5. Add more of them under the same event.</p>`;
  const learn = ({ event, seeds }) =>
    html`<p>The event <strong class="quoted">${event}</strong> has ${plural(seeds, "article")}: one
      profile of them all finds more; <a href=${eventAddress(event, "learned")}>see what it would
      learn</a>.</p>`;
  return events.map((each) => html`${each.few && few(each)}${each.may_learn && learn(each)}`);
}

function Published({ result, again }) {
  const seed = ({ id, version, published }) =>
    html`<p class="card"><a class="quoted" href=${seedAddress(id)}>${id}</a> <code>${version}</code>
      ${` ${published}`}: it is on the topic, and every worker compares posts with it.</p>`;
  return html`<section role="status">${result.seeds.map(seed)}
    <${Advice} events=${result.events} />
    <div class="row"><${Button} kind="main" run=${again}>Add another<//>
      <a class="button" href="#/seeds">All seeds</a></div></section>`;
}
