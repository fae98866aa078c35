/** 消息清洗: what is replaced in messages before they are summarised, rule by rule. */

import type { JSX } from "preact";
import { t } from "../lib/i18n";
import { lang } from "../lib/prefs";
import type { SettingField } from "../lib/api-types";
import { Icon } from "../ui/icon";

interface Rule {
  pattern: string;
  flags: string;
  replacement: string;
}

const COLUMNS = ["pattern", "flags", "replacement"] as const;

function read(value: string): Rule[] {
  return JSON.parse(value || "[]") as Rule[];
}

export function Cleaning({ field, value, own, error, onChange }: {
  field: SettingField;
  value: string;
  own: boolean;
  error: string;
  onChange: (value: string | null) => void;
}): JSX.Element {
  const rules = read(value);
  const put = (changed: Rule[]) => onChange(JSON.stringify(changed));
  const set = (at: number, column: (typeof COLUMNS)[number], text: string) =>
    put(rules.map((rule, index) => (index === at ? { ...rule, [column]: text } : rule)));
  return (
    <details class="card stack" open={rules.length > 0 || error !== ""} data-setting={field.name}>
      <summary><h2>{t("cleaning.title")}</h2></summary>
      <p class="soft">{t("cleaning.text")}</p>
      {rules.length > 0 && (
        <table class="rules">
          <caption>{field.title[lang.value]}</caption>
          <thead>
            <tr>{COLUMNS.map((column) => <th key={column} scope="col">{t(`cleaning.${column}`)}</th>)}<th><span class="visually-hidden">{t("cleaning.remove")}</span></th></tr>
          </thead>
          <tbody>
            {rules.map((rule, index) => (
              <tr key={index}>
                {COLUMNS.map((column) => (
                  <td key={column}>
                    <input
                      aria-label={`${t(`cleaning.${column}`)} ${index + 1}`}
                      class={column === "flags" ? "narrow" : undefined}
                      value={rule[column]}
                      maxLength={column === "flags" ? 8 : 4096}
                      spellcheck={false}
                      aria-invalid={error !== ""}
                      onInput={(event) => set(index, column, event.currentTarget.value)}
                    />
                  </td>
                ))}
                <td>
                  <button type="button" class="icon plain" aria-label={t("cleaning.remove.n", { n: index + 1 })} title={t("cleaning.remove")}
                    onClick={() => put(rules.filter((_, at) => at !== index))}>
                    <Icon name="trash" />
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {error && <span class="error" role="alert">{error}</span>}
      <div class="row">
        <button type="button" onClick={() => put([...rules, { pattern: "", flags: "g", replacement: "" }])}>
          <Icon name="plus" /> {t("cleaning.add")}
        </button>
        {own && (
          <button type="button" aria-label={t("setting.reset.of", { name: field.title[lang.value] })} onClick={() => onChange(null)}>
            <Icon name="undo" /> {t("setting.reset")}
          </button>
        )}
      </div>
    </details>
  );
}
