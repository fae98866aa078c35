/**
 * A text that somebody is putting right. No live update touches it; what is typed outlives a reload;
 * if the text has changed elsewhere meanwhile, both are shown and the writer decides.
 */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../lib/api";
import { dropDraft, findDraft, keepDraft } from "../lib/drafts";
import { t } from "../lib/i18n";
import { Dialog } from "./dialog";
import { attempt, words } from "./toast";
import { Words } from "./words";

export interface Versioned {
  text: string;
  version: string;
}

interface Props extends Versioned {
  name: string; // of its draft
  label: string;
  onSave: (text: string, version: string) => Promise<unknown>;
  onReload: () => Promise<Versioned>;
  onDone: (saved: boolean) => void;
}

export function Editor({ name, label, text, version, onSave, onReload, onDone }: Props): JSX.Element {
  const kept = useRef(findDraft(name));
  const draft = useSignal(kept.current?.text ?? text);
  const base = useRef(kept.current?.base ?? version);
  const busy = useSignal(false);
  const problem = useSignal("");
  const theirs = useSignal<Versioned | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);

  useEffect(() => {
    area.current?.focus();
    keepDraft(name, { text: draft.value, base: base.current });
  }, []);

  const finish = (saved: boolean) => {
    dropDraft(name);
    onDone(saved);
  };
  const save = async () => {
    busy.value = true;
    problem.value = "";
    try {
      await onSave(draft.value, base.current);
      finish(true);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 409 || error.status === 412) theirs.value = await attempt(onReload());
      else problem.value = error.status === 0 ? t("editor.away") : words(error);
    }
    busy.value = false;
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape" && draft.value === text) finish(false);
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void save();
      }}
    >
      <textarea
        ref={area}
        aria-label={label}
        rows={Math.min(18, Math.max(4, Math.ceil(draft.value.length / 70)))}
        value={draft.value}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
          keepDraft(name, { text: draft.value, base: base.current });
        }}
      />
      {problem.value && <p class="note bad" role="alert">{problem.value}</p>}
      <div class="row">
        <button class="primary" disabled={busy.value || !draft.value.trim()}>{t("save")}</button>
        <button type="button" onClick={() => finish(false)}>{t("cancel")}</button>
        <span class="soft small">{t("editor.keys")}</span>
      </div>
      {theirs.value && (
        <Dialog wide title={t("conflict.title")} onClose={() => (theirs.value = null)}>
          <p>{t("conflict.text")}</p>
          <div class="sides">
            <div><h3>{t("conflict.theirs")}</h3><p class="plain-text">{theirs.value.text}</p></div>
            <div><h3>{t("conflict.mine")}</h3><Words before={theirs.value.text} after={draft.value} /></div>
          </div>
          <div class="row end">
            <button type="button" onClick={() => (theirs.value = null)}>{t("conflict.back")}</button>
            <button type="button" onClick={() => finish(false)}>{t("conflict.take")}</button>
            <button
              type="button"
              class="primary"
              onClick={() => {
                base.current = theirs.value!.version;
                theirs.value = null;
                void save();
              }}
            >
              {t("conflict.keep")}
            </button>
          </div>
        </Dialog>
      )}
    </form>
  );
}

/** Whether words were left unsaved here, so that the editor opens again by itself. */
Editor.hasDraft = (name: string): boolean => findDraft(name) !== null;
