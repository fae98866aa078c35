/** One setting, drawn from what the server says of it: name, limits, help, and whose value holds. */

import type { JSX } from "preact";
import { known, number, t } from "../lib/i18n";
import { lang } from "../lib/prefs";
import type { SettingField } from "../lib/api-types";
import { Icon } from "./icon";

export type Value = string | boolean;

interface Props {
  field: SettingField;
  value: Value;
  error: string;
  changed: boolean;
  onChange: (value: Value) => void;
  onReset: () => void;
}

export function Field({ field, value, error, changed, onChange, onReset }: Props): JSX.Element {
  const id = `setting-${field.name}`;
  const described = `${id}-help${error ? ` ${id}-error` : ""}`;
  const own = field.own !== null || changed;
  return (
    <div class="field" data-setting={field.name}>
      {field.type === "flag" ? (
        <label class="check">
          <input id={id} type="checkbox" checked={value === true} aria-describedby={described}
            onChange={(event) => onChange(event.currentTarget.checked)} />
          {field.title[lang.value]}
        </label>
      ) : (
        <>
          <label for={id}>{field.title[lang.value]}</label>
          <Input field={field} id={id} value={String(value)} described={described} invalid={error !== ""} onChange={onChange} />
        </>
      )}
      <span id={`${id}-help`} class="help">{field.help[lang.value]} <span class="nowrap">{range(field)}</span></span>
      {error && <span id={`${id}-error`} class="error" role="alert">{error}</span>}
      <span class="from">
        {own ? <span class="tag accent">{t("setting.own")}</span> : <span>{t(`setting.from.${field.inherited_from}`)}</span>}
        {own && (
          <button type="button" class="plain" onClick={onReset} aria-label={t("setting.reset.of", { name: field.title[lang.value] })}>
            <Icon name="undo" /> {t("setting.reset")}
          </button>
        )}
      </span>
    </div>
  );
}

function range({ minimum, maximum, type }: SettingField): string {
  if ((type !== "whole" && type !== "amount") || minimum == null || maximum == null) return "";
  return t("setting.range", { low: number(minimum), high: number(maximum) });
}

function Input({ field, id, value, described, invalid, onChange }: {
  field: SettingField;
  id: string;
  value: string;
  described: string;
  invalid: boolean;
  onChange: (value: Value) => void;
}): JSX.Element {
  if (field.choices) {
    return (
      <select id={id} value={value} aria-describedby={described} onChange={(event) => onChange(event.currentTarget.value)}>
        {[...new Set([...field.choices, value])].map((choice) => (
          <option key={choice} value={choice}>{known("choice", choice || "none")}</option>
        ))}
      </select>
    );
  }
  const numeric = field.type === "whole" || field.type === "amount";
  return (
    <input
      id={id}
      value={value}
      type={numeric ? "number" : "text"}
      step={field.type === "amount" ? "any" : 1}
      min={field.minimum ?? undefined}
      max={field.maximum ?? undefined}
      maxLength={field.max_chars ?? undefined}
      aria-describedby={described}
      aria-invalid={invalid}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}
