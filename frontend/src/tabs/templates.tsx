/** The words that ask for summaries: one's own, checked as they are typed, tried on a real chat. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get, post } from "../lib/api";
import { known, number, t } from "../lib/i18n";
import { lang } from "../lib/prefs";
import { useResource } from "../lib/resource";
import { route } from "../lib/route";
import { chatTitle } from "../lib/store";
import type { SettingField, Template, Templates as All, Tried } from "../lib/api-types";
import { Icon } from "../ui/icon";
import { Shown } from "../ui/states";
import { attempt } from "../ui/toast";

interface Props {
  fields: SettingField[];
  valueOf: (field: SettingField) => string;
  isOwn: (field: SettingField) => boolean;
  errors: Record<string, string>;
  onChange: (name: string, value: string | null) => void;
}

export function Templates({ fields, valueOf, isOwn, errors, onChange }: Props): JSX.Element {
  const known = useResource<All>((signal) => get("templates", {}, signal), []);
  return (
    <section class="card stack" aria-labelledby="templates">
      <h2 id="templates">{t("templates.title")}</h2>
      <p class="soft">{t("templates.text")}</p>
      <Shown of={known}>
        {({ items }) => items.map((template) => {
          const field = fields.find(({ name }) => name === template.setting);
          return field && (
            <One
              key={field.name}
              field={field}
              template={template}
              value={valueOf(field)}
              own={isOwn(field)}
              error={errors[field.name] ?? ""}
              onChange={(value) => onChange(field.name, value)}
            />
          );
        })}
      </Shown>
    </section>
  );
}

const PLACEHOLDER = /\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}/g;

const ALSO: Record<string, string> = { NEW_DIALOGUE: "NEW_HISTORY", SHEET: "SUMMARY", PREVIOUS_SHEET: "PREVIOUS_SUMMARY" };

/** What a template lacks, and what it asks for that nobody will give. The server has the last word. */
function faults(text: string, { required, optional }: Template): string[] {
  if (!text.trim()) return [];
  const used = [...text.matchAll(PLACEHOLDER)].map(([, name]) => ALSO[name!.toUpperCase()] ?? name!.toUpperCase());
  const offered = [...required, ...optional];
  return [
    ...required.filter((name) => !used.includes(name)).map((name) => t("templates.lacks", { name: `{{${name}}}` })),
    ...[...new Set(used)].filter((name) => !offered.includes(name)).map((name) => t("templates.unknown", { name: `{{${name}}}` })),
  ];
}

function One({ field, template, value, own, error, onChange }: {
  field: SettingField;
  template: Template;
  value: string;
  own: boolean;
  error: string;
  onChange: (value: string | null) => void;
}): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const tried = useSignal<Tried | null>(null);
  const asking = useSignal(false);
  const { chat } = route.value;
  const id = `setting-${field.name}`;
  const wrong = faults(value, template);
  const put = (name: string) => {
    const box = area.current!;
    box.setRangeText(`{{${name}}}`, box.selectionStart, box.selectionEnd, "end");
    box.focus();
    onChange(box.value);
  };
  const tryIt = async (run: boolean) => {
    asking.value = true;
    tried.value = await attempt(post<Tried>(`chats/${chat}/templates/try`, { setting: field.name, template: value, run }));
    asking.value = false;
  };
  return (
    <div class="field template" data-setting={field.name}>
      <label for={id}>{field.title[lang.value]}</label>
      <textarea
        id={id}
        ref={area}
        rows={value ? 8 : 3}
        value={value}
        maxLength={field.max_chars ?? undefined}
        placeholder={t("templates.ours")}
        aria-describedby={`${id}-help`}
        aria-invalid={wrong.length > 0 || error !== ""}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      <div id={`${id}-help`} class="row tight">
        {[...template.required, ...template.optional].map((name) => (
          <button key={name} type="button" class="plain variable" title={known("variable", name, "")} onClick={() => put(name)}>
            <code>{`{{${name}}}`}</code>{template.required.includes(name) && <span class="tag accent">{t("templates.needed")}</span>}
          </button>
        ))}
      </div>
      {wrong.map((fault) => <span key={fault} class="error" role="alert">{fault}</span>)}
      {error && wrong.length === 0 && <span class="error" role="alert">{error}</span>}
      <div class="row">
        {!value && <button type="button" onClick={() => onChange(template.ours[lang.value])}><Icon name="copy" /> {t("templates.start")}</button>}
        {own && <button type="button" onClick={() => onChange(null)} aria-label={t("setting.reset.of", { name: field.title[lang.value] })}><Icon name="undo" /> {t("setting.reset")}</button>}
        {chat ? (
          <>
            <button type="button" disabled={asking.value || wrong.length > 0} onClick={() => void tryIt(false)}>{t("templates.try", { chat: chatTitle.value })}</button>
            <button type="button" disabled={asking.value || wrong.length > 0} onClick={() => void tryIt(true)}><Icon name="play" /> {t("templates.run")}</button>
          </>
        ) : <span class="soft small">{t("templates.choose")}</span>}
      </div>
      {asking.value && <p class="soft" role="status">{t("profiles.testing")}</p>}
      {tried.value && <Result tried={tried.value} />}
    </div>
  );
}

function Result({ tried }: { tried: Tried }): JSX.Element {
  return (
    <div class="stack tight tried" role="status">
      {tried.wrong.map((fault) => <p key={fault} class="note bad">{fault}</p>)}
      {tried.answer !== null && (
        <div class="note" data-tried="answer">
          <p class="meta"><b>{t("templates.answer")}</b><span>{tried.model}</span></p>
          <p class="plain-text">{tried.answer}</p>
        </div>
      )}
      {tried.messages.length > 0 && (
        <details open={tried.answer === null}>
          <summary>{t("templates.request", { n: number(tried.tokens_max ?? 0) })}</summary>
          {tried.messages.map((message, index) => (
            <article class="block hue-hidden" key={index} data-tried="message">
              <header><b>{known("role", String(message["role"]))}</b></header>
              <p class="plain-text">{String(message["content"])}</p>
            </article>
          ))}
        </details>
      )}
    </div>
  );
}
