/** What stands here while the server wants its token first. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { post, Problem } from "../lib/api";
import { t } from "../lib/i18n";
import { words } from "./toast";

export function Login(): JSX.Element {
  const problem = useSignal("");
  const token = useSignal("");
  const enter = async (event: Event) => {
    event.preventDefault();
    try {
      await post("login", { token: token.value.trim() });
      location.reload();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problem.value = words(error);
    }
  };
  return (
    <form class="card stack" onSubmit={(event) => void enter(event)}>
      <h1>{t("login.title")}</h1>
      <p>{t("login.text")}</p>
      <div class="field">
        <label for="token">{t("login.token")}</label>
        <input id="token" type="password" autocomplete="current-password" value={token.value}
          onInput={(event) => (token.value = event.currentTarget.value)} />
      </div>
      {problem.value && <p class="note bad" role="alert">{problem.value}</p>}
      <div class="row"><button class="primary" disabled={!token.value.trim()}>{t("login.enter")}</button></div>
    </form>
  );
}
