/** Text to take along, with a button that takes it. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { t } from "../lib/i18n";
import { Icon } from "./icon";

export function Copy({ text, label, block = false }: {
  text: string;
  label: string;
  block?: boolean;
}): JSX.Element {
  const done = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return; // the text stands there to be selected
    }
    done.value = true;
    setTimeout(() => (done.value = false), 2_000);
  };
  return (
    <div class="copy">
      {block ? <pre tabIndex={0}>{text}</pre> : <code tabIndex={0}>{text}</code>}
      <button type="button" class="icon" aria-label={`${t("copy")}: ${label}`} title={t("copy")} onClick={() => void copy()}>
        <Icon name={done.value ? "check" : "copy"} />
      </button>
    </div>
  );
}
