/** 摘要: what stands for what, from eras down to floors; to read, put right, decide and write anew. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, patch, post, remove } from "../lib/api";
import { floors, known, number, said, t, when } from "../lib/i18n";
import { useResource } from "../lib/resource";
import { href, route } from "../lib/route";
import type { Rebuilding, Summary, SummaryFull, SummaryPage } from "../lib/api-types";
import { Confirm, Dialog } from "../ui/dialog";
import { byHand } from "../ui/dear";
import { Editor } from "../ui/editor";
import { Icon } from "../ui/icon";
import { Menu } from "../ui/menu";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { attempt, say } from "../ui/toast";
import { Words } from "../ui/words";
import { CarriedOver } from "./carried";

const PAGE = 100;

interface Top {
  items: Summary[];
  proposed: Summary[];
  more: boolean;
  path: string[]; // what must be open for the summary that the address names
}

async function load(chat: string, wanted: string, limit: number, signal: AbortSignal): Promise<Top> {
  const at = `chats/${chat}/summaries`;
  const [top, proposed, path] = await Promise.all([
    get<SummaryPage>(at, { show: "top", limit }, signal),
    get<SummaryPage>(at, { show: "proposed", limit: PAGE }, signal),
    above(wanted, signal),
  ]);
  return { items: top.items, proposed: proposed.items, more: top.next !== null, path };
}

async function above(wanted: string, signal: AbortSignal): Promise<string[]> {
  const path: string[] = [];
  let id: string | null = wanted || null;
  while (id) {
    const found: SummaryFull = await get(`summaries/${id}`, {}, signal);
    path.push(found.id);
    id = found.parent;
  }
  return path;
}

export default function Summaries(): JSX.Element {
  const { chat: id, params } = route.value;
  const wanted = params["summary"] ?? "";
  const limit = useSignal(PAGE);
  const list = useResource<Top>(
    (signal) => load(id, wanted, limit.value, signal),
    [id, wanted],
    (change) => change.kind === "chat" && change.chat === id,
  );
  return (
    <>
      <Title text={t("tab.summaries")} ofChat lead={t("summaries.lead")} />
      <Buttons chat={id} />
      <CarriedOver chat={id} />
      <Shown of={list}>
        {({ items, proposed, more, path }) => (
          <>
            {proposed.map((each) => <Proposed key={each.id} proposal={each} onChanged={list.reload} />)}
            {!items.length && !proposed.length
              ? <Empty icon="summaries" title={t("summaries.empty")} text={t("summaries.empty.text")} />
              : <Tree summaries={items} path={path} onChanged={list.reload} />}
            {more && (
              <button type="button" onClick={() => { limit.value += PAGE; list.reload(); }}>{t("summaries.all")}</button>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function Buttons({ chat }: { chat: string }): JSX.Element {
  const rebuilding = useSignal<Rebuilding | null>(null);
  const at = `chats/${chat}`;
  return (
    <div class="row" role="group" aria-label={t("summaries.byhand")}>
      <button type="button" class="primary" onClick={() => void byHand((beyond_budget) => post(`${at}/run`, { beyond_budget }), t("summaries.run.begun"))}>
        <Icon name="play" /> {t("summaries.run")}
      </button>
      <button type="button" onClick={() => void byHand((beyond_budget) => post(`${at}/run`, { latest: true, beyond_budget }), t("summaries.latest.begun"))}>
        <Icon name="check" /> {t("summaries.latest")}
      </button>
      <button type="button" onClick={() => void byHand((beyond_budget) => post(`${at}/archive`, { beyond_budget }), t("summaries.archive.begun"))}>
        <Icon name="archive" /> {t("summaries.archive")}
      </button>
      <button
        type="button"
        onClick={() => void attempt(post<Rebuilding>(`${at}/rebuild`, { dry_run: true })).then((look) => (rebuilding.value = look))}
      >
        <Icon name="refresh" /> {t("summaries.rebuild")}
      </button>
      {rebuilding.value && (
        <Confirm
          title={t("summaries.rebuild")}
          text={t("summaries.rebuild.text", { n: rebuilding.value.summaries })}
          action={t("summaries.rebuild")}
          onYes={() => void rebuild(at)}
          onClose={() => (rebuilding.value = null)}
        />
      )}
    </div>
  );
}

async function rebuild(at: string): Promise<void> {
  const begun = () => say(t("summaries.rebuild.begun"), () => void attempt(remove(`${at}/rebuild`), t("summaries.rebuild.stopped")));
  await byHand((beyond_budget) => post(`${at}/rebuild`, { dry_run: false, beyond_budget }).then(begun), "");
}

function Tree({ summaries, path, onChanged }: {
  summaries: Summary[];
  path: string[];
  onChanged: () => void;
}): JSX.Element {
  return (
    <ol class="tree">
      {summaries.map((each) => <li key={each.id}><Node summary={each} path={path} onChanged={onChanged} /></li>)}
    </ol>
  );
}

function Children({ parent, path }: { parent: Summary; path: string[] }): JSX.Element {
  const list = useResource<SummaryPage>(
    (signal) => get(`chats/${parent.chat}/summaries`, { parent: parent.id, show: "all", limit: 200 }, signal),
    [parent.id],
    (change) => change.kind === "chat" && change.chat === parent.chat,
  );
  return (
    <Shown of={list}>
      {({ items }) => (
        <Tree summaries={items.filter(({ status }) => status === "ready")} path={path} onChanged={list.reload} />
      )}
    </Shown>
  );
}

interface NodeProps {
  summary: Summary;
  path: string[];
  onChanged: () => void;
}

function Node({ summary, path, onChanged }: NodeProps): JSX.Element {
  const here = path[0] === summary.id;
  const open = useSignal(!here && path.includes(summary.id));
  const editing = useSignal(false);
  const looking = useSignal(false);
  const box = useRef<HTMLElement>(null);
  const name = t("summaries.name", { kind: known("kind", summary.kind), n: summary.ordinal });
  useEffect(() => {
    if (here) box.current?.scrollIntoView({ block: "center" });
  }, [here]);
  return (
    <article ref={box} class={`card node ${summary.valid ? "" : "stale"} ${here ? "chosen" : ""}`} data-summary={summary.id}>
      <header>
        {summary.children > 0 && (
          <button type="button" class="plain fold-button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}
            aria-label={t("summaries.open", { name })}>
            <Icon name="chevron" />
          </button>
        )}
        <h2>{name}</h2>
        <a href={href({ tab: "history", floor: summary.first_floor })}>
          {floors(summary.first_floor, summary.last_floor)}
        </a>
        <span class="soft small num hide-small">{t("tokens.n", { n: number(summary.tokens) })}</span>
        <div class="actions">
        <button type="button" class="icon plain" aria-label={t("summaries.edit", { name })} title={t("edit")} onClick={() => (editing.value = true)}>
          <Icon name="edit" />
        </button>
        <Menu
          label={t("summaries.more", { name })}
          actions={[
            { icon: "history", text: t("summaries.revisions"), run: () => (looking.value = true) },
            { icon: "link", text: t("summaries.sources"), href: href({ tab: "history", floor: summary.first_floor }) },
            { icon: "trash", text: t("summaries.delete"), bad: true, run: () => void removeOne(summary, name, onChanged) },
          ]}
        />
        </div>
      </header>
      {editing.value || Editor.hasDraft(summary.id) ? (
        <>
          <Editor
            name={summary.id}
            label={t("summaries.text", { name })}
            text={summary.text}
            version={summary.id}
            onSave={(text, version) => patch(`summaries/${version}`, { text })}
            onReload={async () => {
              const now = await standing(summary.id);
              return { text: now.text, version: now.id };
            }}
            onDone={(saved) => {
              editing.value = false;
              onChanged();
              if (saved) say(t("summaries.edited"));
            }}
          />
          <p class="soft small">{t("summaries.protected")}</p>
        </>
      ) : (
        <p class="plain-text">{summary.text}</p>
      )}
      <Flags summary={summary} />
      {open.value && <div class="below"><Children parent={summary} path={path} /></div>}
      {looking.value && <Revisions summary={summary} name={name} onChanged={onChanged} onClose={() => (looking.value = false)} />}
    </article>
  );
}

async function removeOne({ id }: Summary, name: string, onChanged: () => void): Promise<void> {
  if ((await attempt(remove(`summaries/${id}`).then(() => true))) === null) return;
  onChanged();
  say(t("summaries.deleted", { name }), () => {
    void attempt(post(`summaries/${id}/restore`), t("summaries.restored")).then(onChanged);
  });
}

function Flags({ summary }: { summary: Summary }): JSX.Element {
  return (
    <div class="row tight flags">
      {summary.is_extract && <span class="tag" title={t("summaries.extract.text")}>{t("summaries.extract")}</span>}
      {summary.model && !summary.is_extract && <span class="tag ellipsis">{summary.model}</span>}
      {summary.edited_by_user && <span class="tag accent">{t("summaries.yours")}</span>}
      {!summary.valid && <span class="tag warn">{t("summaries.stale")}</span>}
      {summary.flags.map((flag) => <span key={flag} class="tag warn">{said(flag)}</span>)}
    </div>
  );
}

/** The revision that stands now; an older one cannot be edited any more. */
async function standing(id: string): Promise<Summary> {
  const { items } = await get<SummaryPage>(`summaries/${id}/revisions`);
  return items.find(({ status }) => status === "ready") ?? items.at(-1)!;
}

function Proposed({ proposal, onChanged }: { proposal: Summary; onChanged: () => void }): JSX.Element {
  const before = useResource<SummaryPage>((signal) => get(`summaries/${proposal.id}/revisions`, {}, signal), [proposal.id]);
  const old = before.data.value?.items.findLast(({ id }) => id !== proposal.id);
  const decide = (accept: boolean) => {
    const done = t(accept ? "proposal.accepted" : "proposal.rejected");
    void attempt(post(`summaries/${proposal.id}/proposal`, { accept }), done).then(onChanged);
  };
  return (
    <section class="card stack tight" data-proposal={proposal.id}>
      <div class="row">
        <h2>{t("proposal.title")}</h2>
        <span class="soft">{floors(proposal.first_floor, proposal.last_floor)}</span>
      </div>
      <p class="soft">{t("proposal.text")}</p>
      <Words before={old?.text ?? proposal.text} after={proposal.text} />
      <div class="row">
        <button type="button" class="primary" onClick={() => decide(true)}>{t("proposal.accept")}</button>
        <button type="button" onClick={() => decide(false)}>{t("proposal.reject")}</button>
      </div>
    </section>
  );
}

function Revisions({ summary, name, onChanged, onClose }: {
  summary: Summary;
  name: string;
  onChanged: () => void;
  onClose: () => void;
}): JSX.Element {
  const list = useResource<SummaryPage>((signal) => get(`summaries/${summary.id}/revisions`, {}, signal), [summary.id]);
  const restore = async (id: string) => {
    if (!(await attempt(post(`summaries/${id}/restore`), t("summaries.restored")))) return;
    onChanged();
    onClose();
  };
  return (
    <Dialog wide title={t("summaries.revisions.of", { name })} onClose={onClose}>
      <Shown of={list}>
        {({ items }) => (
          <ol class="stack">
            {items.map((revision, index) => (
              <li key={revision.id} class="stack tight">
                <div class="row">
                  <b>{t("summaries.revision", { n: index + 1 })}</b>
                  <span class="soft small">{when(revision.created_at_ms)}</span>
                  {revision.edited_by_user && <span class="tag accent">{t("summaries.yours")}</span>}
                  {revision.id === summary.id
                    ? <span class="tag good">{t("summaries.current")}</span>
                    : <button type="button" onClick={() => void restore(revision.id)}><Icon name="undo" /> {t("restore")}</button>}
                </div>
                <Words before={items[index - 1]?.text ?? revision.text} after={revision.text} />
              </li>
            ))}
          </ol>
        )}
      </Shown>
      <div class="row end"><button type="button" onClick={onClose}>{t("close")}</button></div>
    </Dialog>
  );
}
