/** What the chat that this one continues has handed on: to read, and to take out. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { get, remove } from "../lib/api";
import { known, number, t } from "../lib/i18n";
import { useResource } from "../lib/resource";
import type { Carried, CarriedList } from "../lib/api-types";
import { Confirm } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { attempt } from "../ui/toast";

export function CarriedOver({ chat }: { chat: string }): JSX.Element | null {
  const leaving = useSignal<Carried | null>(null);
  const list = useResource<CarriedList>(
    (signal) => get(`chats/${chat}/carried`, {}, signal), [chat],
    (change) => change.kind === "chat" && change.chat === chat,
  );
  const items = list.data.value?.items ?? [];
  const first = items[0];
  if (!first) return null;
  const title = items.at(-1)?.from_title ?? first.from_title;
  return (
    <section class="card stack" aria-labelledby="carried-title" data-carried>
      <h2 id="carried-title">{t("carried.title", { title })}</h2>
      <p class="soft small">{t("carried.text")}</p>
      <ul class="stack">
        {items.map((each) => (
          <li key={each.id} class="row top">
            <div class="grow">
              <span class="meta">
                <span class="tag">{known("kind", each.kind)}</span>
                <span>{t("tokens.n", { n: number(each.tokens) })}</span>
                {!each.shown && <span class="tag warn">{t("carried.hidden")}</span>}
              </span>
              <p class="lines serif">{each.text}</p>
            </div>
            <button type="button" class="icon plain" aria-label={t("carried.remove", { text: each.text.slice(0, 40) })}
              title={t("carried.remove.short")} onClick={() => (leaving.value = each)}>
              <Icon name="trash" />
            </button>
          </li>
        ))}
      </ul>
      {leaving.value && (
        <Confirm
          bad
          title={t("carried.remove.short")}
          text={t("carried.remove.text")}
          action={t("carried.remove.short")}
          onYes={() => void attempt(remove(`chats/${chat}/carried/${leaving.value!.id}`).then(() => true), t("deleted")).then(list.reload)}
          onClose={() => (leaving.value = null)}
        />
      )}
    </section>
  );
}
