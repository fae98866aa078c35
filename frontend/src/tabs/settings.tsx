/** 设置: for all chats or for one, with where each value comes from; and the models that summarise. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, patch, Problem } from "../lib/api";
import { known, t } from "../lib/i18n";
import { lang } from "../lib/prefs";
import { useResource, type Resource } from "../lib/resource";
import { href, route } from "../lib/route";
import { chatTitle } from "../lib/store";
import type { CharacterList, FieldError, SettingField, SettingsForm } from "../lib/api-types";
import { Field, type Value } from "../ui/field";
import { Shown } from "../ui/states";
import { Title } from "../ui/title";
import { attempt, say, words } from "../ui/toast";
import { Cleaning } from "./cleaning";
import { Profiles } from "./profiles";
import { Templates } from "./templates";

export default function Settings(): JSX.Element {
  const { chat, params } = route.value;
  const character = params["character"] ?? "";
  const scope = character ? "character" : params["scope"] === "chat" && chat ? "chat" : "global";
  const path = scope === "chat" ? `chats/${chat}/settings`
    : character ? `settings?character=${encodeURIComponent(character)}` : "settings";
  const form = useResource<SettingsForm>((signal) => get(path, {}, signal), [path]);
  useEffect(() => {
    if (params["part"] === "profiles" && form.data.value) document.getElementById("profiles")?.scrollIntoView();
  }, [params["part"], form.data.value !== null]);
  return (
    <>
      <Title text={t("tab.settings")} lead={t("settings.lead")} />
      <div class="segments" role="group" aria-label={t("settings.scope")}>
        <a class="button" aria-current={scope === "global"} href={href({ tab: "settings" })}>{t("settings.global")}</a>
        <Characters chosen={character} />
        {chat && (
          <a class="button" aria-current={scope === "chat"} href={href({ tab: "settings", scope: "chat" })}>
            {chatTitle.value || t("settings.chat")}
          </a>
        )}
      </div>
      {scope === "chat" && form.data.value && <Whose key={chat} chat={chat} form={form} />}
      <Shown of={form}>{(data) => <Form key={path} form={data} path={path} resource={form} />}</Shown>
      <section class="card"><Profiles /></section>
    </>
  );
}

/** Characters that have chats or settings; each has settings between those of all chats and a chat's. */
function Characters({ chosen }: { chosen: string }): JSX.Element {
  const list = useResource<CharacterList>((signal) => get("characters", {}, signal), [], ({ kind }) => kind === "chat");
  const names = (list.data.value?.items ?? []).map(({ name }) => name);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  return (
    <>
      {names.map((name) => (
        <a class="button" key={name} aria-current={name === chosen} href={href({ tab: "settings", character: name })}>
          {t("settings.character", { name })}
        </a>
      ))}
    </>
  );
}

/** Whose chat it is: that character's settings hold where the chat has none of its own. */
function Whose({ chat, form }: { chat: string; form: Resource<SettingsForm> }): JSX.Element {
  const name = useSignal(form.data.value?.character ?? "");
  const save = async (event: Event) => {
    event.preventDefault();
    if (await attempt(patch(`chats/${chat}`, { character: name.value.trim() }), t("saved"))) form.reload();
  };
  return (
    <form class="card field" onSubmit={(event) => void save(event)}>
      <label for="character">{t("settings.whose")}</label>
      <div class="row">
        <input
          id="character"
          class="grow"
          value={name.value}
          maxLength={200}
          aria-describedby="character-help"
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
        <button disabled={name.value.trim() === (form.data.value?.character ?? "")}>{t("settings.whose.set")}</button>
      </div>
      <span class="help" id="character-help">{t("settings.whose.text")}</span>
    </form>
  );
}

const APART = ["template", "rules"]; // what has a section of its own

type Changes = Record<string, Value | null>; // null: back to what stands below

/** What was changed while the rest was being saved. */
const since = (sent: Changes, now: Changes): Changes =>
  Object.fromEntries(Object.entries(now).filter(([name, value]) => !(name in sent) || sent[name] !== value));

function Form({ form, path, resource }: {
  form: SettingsForm;
  path: string;
  resource: Resource<SettingsForm>;
}): JSX.Element {
  const changes = useSignal<Changes>({});
  const errors = useSignal<Record<string, string>>({});
  const problem = useSignal("");
  const busy = useSignal(false);
  const dirty = Object.keys(changes.value).length > 0;

  const set = (name: string, value: Value | null) => {
    changes.value = { ...changes.value, [name]: value };
  };
  const save = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    problem.value = "";
    errors.value = {};
    const sent = changes.value;
    try {
      await resource.shows(patch<SettingsForm>(path, toSend(form, sent)));
      changes.value = since(sent, changes.value);
      say(t("saved"));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      errors.value = byField(error);
      problem.value = Object.keys(errors.value).length ? t("settings.wrong") : words(error);
    }
    busy.value = false;
  };
  return (
    <form class="stack" noValidate onSubmit={(event) => void save(event)}>
      {form.groups.map((group) => (
        <section class="card stack" key={group.id} aria-labelledby={`group-${group.id}`}>
          <h2 id={`group-${group.id}`}>{group.title[lang.value]}</h2>
          <div class="fields">
            {form.fields.filter((field) => field.group === group.id && !APART.includes(field.type)).map((field) => (
              <Field
                key={field.name}
                field={field}
                value={shownValue(field, changes.value)}
                changed={changes.value[field.name] !== undefined && changes.value[field.name] !== null}
                error={errors.value[field.name] ?? ""}
                onChange={(value) => set(field.name, value)}
                onReset={() => set(field.name, null)}
              />
            ))}
          </div>
        </section>
      ))}
      {form.fields.filter(({ type }) => type === "rules").map((field) => (
        <Cleaning
          key={field.name}
          field={field}
          value={String(shownValue(field, changes.value))}
          own={isOwn(field, changes.value)}
          error={errors.value[field.name] ?? ""}
          onChange={(value) => set(field.name, value)}
        />
      ))}
      <Templates
        fields={form.fields.filter(({ type }) => type === "template")}
        valueOf={(field) => String(shownValue(field, changes.value))}
        isOwn={(field) => isOwn(field, changes.value)}
        errors={errors.value}
        onChange={set}
      />
      {(dirty || problem.value) && (
        <div class="bar-save">
          <button class="primary" disabled={busy.value || !dirty}>{t("save")}</button>
          <button type="button" onClick={() => { changes.value = {}; errors.value = {}; problem.value = ""; }}>{t("settings.discard")}</button>
          {problem.value && <span class="note bad" role="alert">{problem.value}</span>}
        </div>
      )}
    </form>
  );
}

function isOwn(field: SettingField, changes: Changes): boolean {
  const changed = changes[field.name];
  return changed === undefined ? field.own !== null : changed !== null;
}

function shownValue(field: SettingField, changes: Changes): Value {
  const changed = changes[field.name];
  const value = changed === undefined ? field.value : changed === null ? field.inherited : changed;
  return typeof value === "boolean" ? value : String(value ?? "");
}

function toSend(form: SettingsForm, changes: Changes): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(changes).map(([name, value]) => {
      const field = form.fields.find((each) => each.name === name);
      const isNumber = field?.type === "whole" || field?.type === "amount";
      return [name, isNumber && typeof value === "string" && value.trim() !== "" ? Number(value) : value];
    }),
  );
}

/** What is wrong with which field, in the reader's language where it is a known kind of mistake. */
function byField(error: Problem): Record<string, string> {
  const body = (error.body ?? {}) as { errors?: FieldError[]; field?: string | null };
  const found: Record<string, string> = {};
  for (const { field, type, detail } of body.errors ?? []) {
    found[field.split(".").at(-1) ?? field] = known("invalid", type, detail);
  }
  if (!body.errors?.length && body.field) found[body.field] = error.detail;
  return found;
}
