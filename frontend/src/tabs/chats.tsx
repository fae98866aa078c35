/** Chats: all of them, found, made, brought in, taken along, put away. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get, patch, post, Problem, remove, upload } from "../lib/api";
import { fromNow, known, money, t } from "../lib/i18n";
import { useResource, type Resource } from "../lib/resource";
import { go, href, route } from "../lib/route";
import { about, titleOf } from "../lib/store";
import type { Chat, ChatPage, Estimate, Hits, Imported } from "../lib/api-types";
import { Confirm, Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { Menu } from "../ui/menu";
import { Marked } from "../ui/marked";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { attempt, say, words } from "../ui/toast";

export default function Chats(): JSX.Element {
  const query = useSignal("");
  const making = useSignal(false);
  const timer = useRef(0);
  const find = useSignal("");
  const list = useResource<ChatPage>(
    (signal) => get("chats", { limit: 200 }, signal), [], ({ kind }) => kind === "chat",
  );
  return (
    <>
      <Title text={t("tab.chats")} lead={t("chats.lead")}>
        <button type="button" class="primary" onClick={() => (making.value = true)}>
          <Icon name="plus" /> {t("chats.new")}
        </button>
      </Title>
      <input
        type="search"
        aria-label={t("chats.search")}
        placeholder={t("chats.search")}
        value={query.value}
        onInput={(event) => {
          query.value = event.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => (find.value = query.value.trim()), 250);
        }}
      />
      {find.value ? <Found text={find.value} /> : (
        <Shown of={list}>{({ items }) => <List chats={items} list={list} />}</Shown>
      )}
      <Import onDone={list.reload} />
      <Deleted onChanged={list.reload} />
      {making.value && <New onClose={() => (making.value = false)} />}
    </>
  );
}

function List({ chats, list }: { chats: Chat[]; list: Resource<ChatPage> }): JSX.Element {
  if (!chats.length) {
    return (
      <Empty icon="chats" title={t("chats.empty")} text={t("chats.empty.text")}>
        <a class="button primary" href={href({ tab: "start" })}>{t("chats.empty.go")}</a>
      </Empty>
    );
  }
  return (
    <ul class="chat-list">
      {chats.map((chat) => <li key={chat.id}><Card chat={chat} list={list} /></li>)}
    </ul>
  );
}

type Asking = "rename" | "preset" | "branch" | "continue" | "delete" | null;

function Card({ chat, list }: { chat: Chat; list: Resource<ChatPage> }): JSX.Element {
  const asking = useSignal<Asking>(null);
  const close = () => (asking.value = null);
  const at = `chats/${chat.id}`;
  const change = async (body: Record<string, unknown>, done: string) => {
    if (await attempt(patch(at, body), done)) list.reload();
  };
  const putAway = async () => {
    if ((await attempt(remove(at).then(() => true))) === null) return;
    list.reload();
    say(t("chats.deleted", { title: titleOf(chat) }), () => {
      void attempt(post(`${at}/restore`), t("chats.restored")).then(list.reload);
    });
  };
  return (
    <article class={chat.id === route.value.chat ? "card chat-card chosen" : "card chat-card"}>
      <a class="open" href={href({ tab: "history", chat: chat.id })}>
        <b>{titleOf(chat)}</b>
        <span class="meta">
          <span>{t("chats.floors", { n: chat.messages })}</span>
          <span>{known("preset", chat.preset)}</span>
          <span>{fromNow(chat.active_at_ms)}</span>
          {!chat.recording && <span class="tag warn">{t("chats.paused")}</span>}
        </span>
      </a>
      <Menu
        label={t("chats.actions", { title: titleOf(chat) })}
        actions={[
          { icon: "edit", text: t("chats.rename"), run: () => (asking.value = "rename") },
          { icon: "summaries", text: t("chats.preset"), run: () => (asking.value = "preset") },
          { icon: "branch", text: t("chats.branch"), run: () => (asking.value = "branch") },
          { icon: "next", text: t("chats.continue"), run: () => (asking.value = "continue") },
          ...(about.value?.formats_out ?? []).map((format) => ({
            icon: "download" as const,
            text: `${t("chats.export")}: ${known("format", format)}`,
            href: `/api/${at}/export?format=${format}`,
            download: true,
          })),
          {
            icon: chat.recording ? "pause" : "play",
            text: t(chat.recording ? "chats.pause" : "chats.record"),
            run: () => void change({ recording: !chat.recording }, t(chat.recording ? "chats.paused" : "chats.recording")),
          },
          { icon: "trash", text: t("chats.delete"), bad: true, run: () => (asking.value = "delete") },
        ]}
      />
      {asking.value === "rename" && (
        <Ask title={t("chats.rename")} label={t("chats.title")} value={titleOf(chat)} onClose={close}
          onSave={(title) => change({ title }, t("saved"))} />
      )}
      {asking.value === "branch" && (
        <Ask title={t("chats.branch")} label={t("chats.name")} value={`${chat.name} 2`} onClose={close}
          onSave={async (name) => {
            const made = await attempt(post<Chat>(`${at}/branch`, { name }), t("chats.branched"));
            if (made) go({ tab: "history", chat: made.id });
          }} />
      )}
      {asking.value === "continue" && (
        <Ask title={t("chats.continue")} label={t("chats.name")} value={`${chat.name} 2`} help={t("chats.continue.text")} onClose={close}
          onSave={async (name) => {
            const made = await attempt(post<Chat>("chats", { name, continue_from: chat.id }), t("chats.continued"));
            if (made) go({ tab: "summaries", chat: made.id });
          }} />
      )}
      {asking.value === "preset" && <Preset chat={chat} onClose={close} onSave={(preset) => change({ preset }, t("saved"))} />}
      {asking.value === "delete" && (
        <Confirm bad title={t("chats.delete")} text={t("chats.delete.text", { title: titleOf(chat) })}
          action={t("chats.delete")} onYes={() => void putAway()} onClose={close} />
      )}
    </article>
  );
}

export function Ask({ title, label, value, help, onSave, onClose }: {
  title: string;
  label: string;
  value: string;
  help?: string;
  onSave: (value: string) => unknown;
  onClose: () => void;
}): JSX.Element {
  const text = useSignal(value);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          onSave(text.value.trim());
          onClose();
        }}
      >
        <div class="field">
          <label for="ask">{label}</label>
          <input id="ask" value={text.value} required maxLength={200} onInput={(event) => (text.value = event.currentTarget.value)} />
          {help && <span class="help">{help}</span>}
        </div>
        <div class="row end">
          <button type="button" onClick={onClose}>{t("cancel")}</button>
          <button class="primary" disabled={!text.value.trim()}>{t("save")}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Presets({ chosen, onChoose }: { chosen: string; onChoose: (preset: string) => void }): JSX.Element {
  return (
    <fieldset class="presets">
      <legend>{t("chats.preset")}</legend>
      {(about.value?.presets ?? []).map(({ name }) => (
        <label key={name}>
          <input type="radio" name="preset" value={name} checked={name === chosen} onChange={() => onChoose(name)} />
          <span><b>{known("preset", name)}</b><span class="soft small">{known("preset", `${name}.text`, "")}</span></span>
        </label>
      ))}
    </fieldset>
  );
}

function Preset({ chat, onSave, onClose }: {
  chat: Chat;
  onSave: (preset: string) => unknown;
  onClose: () => void;
}): JSX.Element {
  const preset = useSignal(chat.preset);
  return (
    <Dialog title={t("chats.preset")} onClose={onClose}>
      <Presets chosen={preset.value} onChoose={(each) => (preset.value = each)} />
      <p class="soft small">{t("chats.preset.text")}</p>
      <Cost chat={chat.id} />
      <div class="row end">
        <button type="button" onClick={onClose}>{t("cancel")}</button>
        <button
          type="button"
          class="primary"
          onClick={() => {
            onSave(preset.value);
            onClose();
          }}
        >
          {t("save")}
        </button>
      </div>
    </Dialog>
  );
}

/** What writing about all that has no summary yet is expected to take; nothing begins by asking. */
function Cost({ chat }: { chat: string }): JSX.Element {
  const expected = useResource<Estimate>(() => post(`chats/${chat}/backfill`, { dry_run: true }), [chat]);
  return (
    <Shown of={expected}>
      {({ calls, messages, model, cost_usd: cost }) => (
        <p class="note" data-cost>
          {calls === 0 ? t("preset.cost.none") : t("preset.cost", {
            n: messages, calls, model, cost: cost === null ? t("unknown") : money(cost),
          })}
        </p>
      )}
    </Shown>
  );
}

function New({ onClose }: { onClose: () => void }): JSX.Element {
  const name = useSignal("");
  const preset = useSignal("volumes");
  const make = async (event: Event) => {
    event.preventDefault();
    const made = await attempt(post<Chat>("chats", { name: name.value.trim(), preset: preset.value }), t("chats.made"));
    if (!made) return;
    onClose();
    go({ tab: "history", chat: made.id });
  };
  return (
    <Dialog title={t("chats.new")} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void make(event)}>
        <div class="field">
          <label for="new-name">{t("chats.name")}</label>
          <input id="new-name" value={name.value} required maxLength={200} onInput={(event) => (name.value = event.currentTarget.value)} />
          <span class="help">{t("chats.name.text")}</span>
        </div>
        <Presets chosen={preset.value} onChoose={(each) => (preset.value = each)} />
        <div class="row end">
          <button type="button" onClick={onClose}>{t("cancel")}</button>
          <button class="primary" disabled={!name.value.trim()}>{t("chats.new")}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Found({ text }: { text: string }): JSX.Element {
  const found = useResource<Hits>((signal) => get("search", { q: text, limit: 50 }, signal), [text]);
  return (
    <Shown of={found}>
      {({ items }) => items.length === 0 ? <Empty icon="search" title={t("search.none")} text={t("search.none.text")} /> : (
        <ol class="chat-list">
          {items.map((hit) => (
            <li key={hit.message}>
              <a class="card hit" href={href({ tab: "history", chat: hit.chat, floor: hit.floor })}>
                <span class="meta"><b>{hit.chat_title}</b><span>{t("floor.n", { n: hit.floor })}</span></span>
                <Marked text={hit.snippet.text} marks={hit.snippet.marks} />
              </a>
            </li>
          ))}
        </ol>
      )}
    </Shown>
  );
}

/** What was put away and can be brought back, or be gone for good. */
function Deleted({ onChanged }: { onChanged: () => void }): JSX.Element | null {
  const purging = useSignal<Chat | null>(null);
  const list = useResource<ChatPage>(
    (signal) => get("chats", { deleted: true, limit: 50 }, signal), [], ({ kind }) => kind === "chat",
  );
  const items = list.data.value?.items ?? [];
  const changed = () => {
    list.reload();
    onChanged();
  };
  if (!items.length) return null;
  return (
    <details class="deleted">
      <summary>{t("deleted.title", { n: items.length })}</summary>
      <ul class="stack tight">
        {items.map((chat) => (
          <li key={chat.id} class="row">
            <span class="grow">{titleOf(chat)}</span>
            <button type="button" onClick={() => void attempt(post(`chats/${chat.id}/restore`), t("chats.restored")).then(changed)}>
              <Icon name="undo" /> {t("restore")}
            </button>
            <button type="button" class="bad" onClick={() => (purging.value = chat)}>{t("deleted.purge")}</button>
          </li>
        ))}
      </ul>
      {purging.value && (
        <Confirm
          bad
          title={t("deleted.purge")}
          text={t("deleted.purge.text", { title: titleOf(purging.value) })}
          action={t("deleted.purge")}
          onYes={() => void attempt(remove(`chats/${purging.value!.id}?purge=true`).then(() => true), t("deleted")).then(changed)}
          onClose={() => (purging.value = null)}
        />
      )}
    </details>
  );
}

function Import({ onDone }: { onDone: () => void }): JSX.Element {
  const over = useSignal(false);
  const sent = useSignal<{ file: string; share: number } | null>(null);
  const problem = useSignal("");
  const picker = useRef<HTMLInputElement>(null);
  const take = async (files: FileList | null | undefined) => {
    problem.value = "";
    const all = [...(files ?? [])];
    for (const [index, file] of all.entries()) {
      sent.value = { file: file.name, share: index / all.length };
      try {
        const name = file.name.replace(/\.[a-z]+$/i, "") || file.name;
        const made = await upload<Imported>("import", file, { name }, (share) => {
          sent.value = { file: file.name, share: (index + share) / all.length };
        });
        say(t(made.held ? "import.held" : "import.done", { title: titleOf(made.chat), n: made.messages }));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        problem.value = `${file.name}: ${words(error)}`;
      }
    }
    sent.value = null;
    onDone();
  };
  return (
    <section
      class={over.value ? "drop over" : "drop"}
      aria-label={t("import.title")}
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => (over.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        void take(event.dataTransfer?.files);
      }}
    >
      <h2>{t("import.title")}</h2>
      <p class="soft">{t("import.text", { formats: (about.value?.formats_in ?? []).map((each) => known("format", each)).join(", ") })}</p>
      <input class="visually-hidden" type="file" multiple tabIndex={-1} aria-label={t("import.choose")} ref={picker}
        accept=".json,.jsonl,.txt,.zip" onChange={(event) => void take(event.currentTarget.files)} />
      <button type="button" onClick={() => picker.current?.click()}><Icon name="upload" /> {t("import.choose")}</button>
      {sent.value && (
        <div class="stack tight" role="status">
          <span class="soft small">{t(sent.value.share < 1 ? "import.sending" : "import.busy", { file: sent.value.file })}</span>
          <progress aria-label={t("import.title")} value={sent.value.share < 1 ? sent.value.share : undefined} max={1} />
        </div>
      )}
      {problem.value && <p class="note bad" role="alert">{problem.value}</p>}
    </section>
  );
}
