/** Requests of this chat that went on as they came, and why: where one looks for what they said. */

import type { JSX } from "preact";
import { said, t, when } from "../lib/i18n";
import { route } from "../lib/route";
import { chat } from "../lib/store";

export function PassedOn(): JSX.Element | null {
  const passed = chat.value?.id === route.value.chat ? chat.value.passed : null;
  if (!passed) return null;
  return (
    <section class="note warn" role="status" data-passed={passed.requests}>
      <p><b>{t("passed.title", { n: passed.requests })}</b></p>
      <p>{t("passed.why", { when: when(passed.at_ms), why: said(passed.reason) })}</p>
      <p>{t("passed.next")}</p>
    </section>
  );
}
