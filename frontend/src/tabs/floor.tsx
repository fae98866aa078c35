/** One floor: its text, how the next prompt stands for it, and everything one can do to it. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, patch, post, remove } from "../lib/api";
import { known, number, said, t } from "../lib/i18n";
import { Markdown } from "../lib/md";
import { go } from "../lib/route";
import type { Message, Place } from "../lib/api-types";
import { Editor } from "../ui/editor";
import { Icon } from "../ui/icon";
import { Menu, type Action } from "../ui/menu";
import { attempt, say } from "../ui/toast";

export const HUES = ["verbatim", "standing", "summary", "dropped", "hidden"] as const;

interface Props {
  chat: string;
  message: Message;
  here: boolean;
  onChanged: () => void;
}

export function Floor({ chat, message, here, onChanged }: Props): JSX.Element {
  const editing = useSignal(false);
  const box = useRef<HTMLElement>(null);
  const { how, summary } = message.place;
  const at = `chats/${chat}/messages/${message.id}`;
  useEffect(() => {
    if (here) box.current?.scrollIntoView({ block: "center" });
  }, [here]);

  const undo = () => void attempt(post(`chats/${chat}/undo`), t("undone")).then(onChanged);
  const change = async (body: Record<string, unknown>, done: string) => {
    if (await attempt(patch(at, body, message.version))) {
      onChanged();
      say(done, undo);
    }
  };
  const actions: Action[] = [
    {
      icon: message.hidden_by ? "eye" : "eyeOff",
      text: t(message.hidden_by ? "floor.show" : "floor.hide"),
      run: () => void change({ hidden: !message.hidden_by }, t(message.hidden_by ? "floor.shown" : "floor.hidden")),
    },
    {
      icon: "exclude",
      text: t(message.excluded ? "floor.include" : "floor.exclude"),
      run: () => void change({ excluded: !message.excluded }, t("saved")),
    },
    {
      icon: "pin",
      text: t(message.pinned ? "floor.unpin" : "floor.pin"),
      run: () => void change({ pinned: !message.pinned }, t("saved")),
    },
    {
      icon: "trash",
      text: t("floor.delete"),
      bad: true,
      run: async () => {
        if ((await attempt(remove(at, message.version).then(() => true))) === null) return;
        onChanged();
        say(t("floor.deleted", { n: message.floor }), undo);
      },
    },
  ];
  return (
    <article
      ref={box}
      class={`floor hue-${how} ${message.role} ${how === "verbatim" || how === "standing" ? "" : "away"} ${here ? "here" : ""}`}
      data-floor={message.floor}
      data-how={how}
    >
      <header>
        <span class="n">#{message.floor}</span>
        <b>{message.name || known("role", message.role)}</b>
        <span class="how">{represented(message.place)}</span>
        <Marks message={message} />
        <span class="soft small num hide-small">{t("tokens.n", { n: number(message.tokens) })}</span>
        <div class="actions">
          {message.variants > 1 && <Swipes at={at} message={message} onChanged={onChanged} />}
          {summary && (
            <button type="button" class="icon plain" aria-label={t("floor.cover", { n: message.floor })} title={t("floor.cover.short")}
              onClick={() => go({ tab: "summaries", summary })}>
              <Icon name="summaries" />
            </button>
          )}
          <button type="button" class="icon plain" aria-label={t("floor.edit", { n: message.floor })} title={t("edit")}
            onClick={() => (editing.value = true)}>
            <Icon name="edit" />
          </button>
          <Menu label={t("floor.more", { n: message.floor })} actions={actions} />
        </div>
      </header>
      {editing.value || Editor.hasDraft(message.id) ? (
        <Editor
          name={message.id}
          label={t("floor.text", { n: message.floor })}
          text={message.text}
          version={String(message.version)}
          onSave={(text, version) => patch(at, { text }, version)}
          onReload={async () => {
            const now = await get<Message>(at);
            return { text: now.text, version: String(now.version) };
          }}
          onDone={(saved) => {
            editing.value = false;
            onChanged();
            if (saved) say(t("saved"), undo);
          }}
        />
      ) : (
        <Markdown text={message.text} />
      )}
    </article>
  );
}

/** How the next prompt stands for it, in words. */
function represented(place: Place): string {
  if (place.how === "hidden") return t(place.by === "user" ? "how.hidden.user" : "how.hidden.client");
  const reason = place.how === "dropped" && place.reason ? `: ${said(place.reason)}` : "";
  return t(`how.${place.how}`) + reason;
}

function Marks({ message }: { message: Message }): JSX.Element {
  return (
    <>
      {message.pinned && <span class="tag"><Icon name="pin" />{t("floor.pinned")}</span>}
      {message.excluded && <span class="tag">{t("floor.excluded")}</span>}
      {message.state === "candidate" && <span class="tag warn">{t("floor.candidate")}</span>}
    </>
  );
}

function Swipes({ at, message, onChanged }: { at: string; message: Message; onChanged: () => void }): JSX.Element {
  const swipe = (step: number) => {
    const variant = (message.variant + step + message.variants) % message.variants;
    void attempt(post(`${at}/swipe`, { variant })).then(onChanged);
  };
  return (
    <span class="swipes">
      <button type="button" class="icon plain" aria-label={t("swipe.before")} onClick={() => swipe(-1)}><Icon name="left" /></button>
      <span class="small num" aria-label={t("swipe.at")}>{message.variant + 1}/{message.variants}</span>
      <button type="button" class="icon plain" aria-label={t("swipe.after")} onClick={() => swipe(1)}><Icon name="chevron" /></button>
    </span>
  );
}
