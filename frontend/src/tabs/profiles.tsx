/** 次级LLM API: models that write summaries. A key goes in and never comes out. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { get, patch, post, Problem, remove } from "../lib/api";
import { number, t } from "../lib/i18n";
import { useResource } from "../lib/resource";
import type { Finding, Profile, Profiles as List } from "../lib/api-types";
import { Confirm, Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { Shown } from "../ui/states";
import { attempt, say, words } from "../ui/toast";

const SOURCES = ["openai", "anthropic", "extractive"] as const;

export function Profiles(): JSX.Element {
  const list = useResource<List>((signal) => get("profiles", {}, signal), []);
  const editing = useSignal<Profile | "new" | null>(null);
  return (
    <div class="stack tight" id="profiles">
      <div class="row">
        <h2 class="grow">{t("profiles.title")}</h2>
        <button type="button" onClick={() => (editing.value = "new")}><Icon name="plus" /> {t("profiles.add")}</button>
      </div>
      <p class="soft">{t("profiles.text")}</p>
      <Shown of={list}>
        {({ items }) => (
          <ul class="stack tight">
            {items.map((profile) => (
              <li key={profile.id}><One profile={profile} onEdit={() => (editing.value = profile)} onChanged={list.reload} /></li>
            ))}
          </ul>
        )}
      </Shown>
      {editing.value && (
        <Edit profile={editing.value === "new" ? null : editing.value} onChanged={list.reload} onClose={() => (editing.value = null)} />
      )}
    </div>
  );
}

function One({ profile, onEdit, onChanged }: { profile: Profile; onEdit: () => void; onChanged: () => void }): JSX.Element {
  const finding = useSignal<Finding | null>(null);
  const busy = useSignal(false);
  const asking = useSignal(false);
  const test = async () => {
    busy.value = true;
    finding.value = await attempt(post<Finding>(`profiles/${profile.id}/test`));
    busy.value = false;
  };
  return (
    <article class="profile">
      <div class="row">
        <b>{profile.name}</b>
        <span class="soft ellipsis">{[profile.model, profile.base_url].filter(Boolean).join(" · ") || t("source.extractive")}</span>
        {profile.has_key && <span class="tag good">{t("profiles.key.set")}</span>}
        {profile.window_tokens !== null && <span class="tag num">{t("tokens.n", { n: number(profile.window_tokens) })}</span>}
        <span class="grow" />
        <button type="button" class="plain" disabled={busy.value} onClick={() => void test()}>{t(busy.value ? "profiles.testing" : "profiles.test")}</button>
        <button type="button" class="icon plain" aria-label={t("profiles.edit", { name: profile.name })} title={t("edit")} onClick={onEdit}><Icon name="edit" /></button>
        <button type="button" class="icon plain" aria-label={t("profiles.remove", { name: profile.name })} title={t("delete")} onClick={() => (asking.value = true)}><Icon name="trash" /></button>
      </div>
      {profile.trouble && <div class="note bad" role="status">{t("profiles.trouble", { why: profile.trouble })}</div>}
      {finding.value && (
        <div class={finding.value.ok ? "note" : "note bad"} role="status">
          {finding.value.says.map((line) => <p key={line}>{line}</p>)}
        </div>
      )}
      {asking.value && (
        <Confirm
          bad
          title={t("profiles.remove", { name: profile.name })}
          text={profile.used_by.length ? t("profiles.remove.used", { who: profile.used_by.join(", ") }) : t("profiles.remove.text")}
          action={t("delete")}
          onYes={() => void attempt(remove(`profiles/${profile.id}`).then(() => true), t("deleted")).then(onChanged)}
          onClose={() => (asking.value = false)}
        />
      )}
    </article>
  );
}

function Edit({ profile, onChanged, onClose }: {
  profile: Profile | null;
  onChanged: () => void;
  onClose: () => void;
}): JSX.Element {
  const problem = useSignal("");
  const source = useSignal(profile?.source ?? "openai");
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(data.get(name) ?? "").trim();
    const body: Record<string, unknown> = { source: source.value, base_url: text("base_url"), model: text("model") };
    if (text("window_tokens")) body["window_tokens"] = Number(text("window_tokens"));
    if (text("api_key")) body["api_key"] = text("api_key"); // empty: as it is
    if (!profile) body["name"] = text("name");
    try {
      await (profile ? patch(`profiles/${profile.id}`, body, profile.version) : post("profiles", body));
      say(t("saved"));
      onChanged();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problem.value = words(error);
    }
  };
  return (
    <Dialog title={profile ? t("profiles.edit", { name: profile.name }) : t("profiles.add")} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void save(event)}>
        {!profile && <Text name="name" label={t("profiles.name")} help={t("profiles.name.text")} value="main" required />}
        <div class="field">
          <label for="profile-source">{t("profiles.source")}</label>
          <select id="profile-source" value={source.value} onChange={(event) => (source.value = event.currentTarget.value)}>
            {SOURCES.map((each) => <option key={each} value={each}>{t(`source.${each}`)}</option>)}
          </select>
        </div>
        {source.value !== "extractive" && (
          <>
            <Text name="base_url" label={t("profiles.url")} value={profile?.base_url ?? ""} placeholder="http://127.0.0.1:11434/v1" />
            <Text name="model" label={t("profiles.model")} value={profile?.model ?? ""} placeholder={t("profiles.model.hint")} />
            <Text name="window_tokens" type="number" label={t("profiles.window")} value={profile?.window_tokens?.toString() ?? ""} />
            <Text name="api_key" type="password" label={t("profiles.key")} help={t("profiles.key.text")} value=""
              placeholder={profile?.has_key ? "••••••••" : ""} />
          </>
        )}
        {problem.value && <p class="note bad" role="alert">{problem.value}</p>}
        <div class="row end">
          <button type="button" onClick={onClose}>{t("cancel")}</button>
          <button class="primary">{t("save")}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Text({ name, label, help, value, type = "text", required = false, placeholder = "" }: {
  name: string;
  label: string;
  value: string;
  help?: string;
  type?: string;
  required?: boolean;
  placeholder?: string;
}): JSX.Element {
  const id = `profile-${name}`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} name={name} type={type} defaultValue={value} required={required} placeholder={placeholder}
        autocomplete={type === "password" ? "new-password" : "off"} aria-describedby={help ? `${id}-help` : undefined} />
      {help && <span class="help" id={`${id}-help`}>{help}</span>}
    </div>
  );
}
