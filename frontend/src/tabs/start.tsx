/** First run: a story to look at, a model to talk to, and the address that goes into a client. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { get, post } from "../lib/api";
import { t, type Word } from "../lib/i18n";
import { lang } from "../lib/prefs";
import { go, href } from "../lib/route";
import { about, chat } from "../lib/store";
import type { ChatPage, Imported } from "../lib/api-types";
import { Copy } from "../ui/copy";
import { Icon } from "../ui/icon";
import { attempt } from "../ui/toast";

const CLIENTS = ["sillytavern", "openwebui", "python"] as const;
type Client = (typeof CLIENTS)[number];

const STEPS: Record<Client, Word[]> = {
  sillytavern: ["client.st.1", "client.st.2", "client.st.3", "client.st.4"],
  openwebui: ["client.ow.1", "client.ow.2", "client.ow.3"],
  python: ["client.py.1", "client.py.2"],
};

export default function Start(): JSX.Element {
  return (
    <>
      <div class="hero">
        <h1>{t("start.title")}</h1>
        <p>{t("start.lead")}</p>
      </div>
      <div class="steps">
        <Sample />
        <Upstream />
      </div>
      <Connect />
    </>
  );
}

function Sample(): JSX.Element {
  const busy = useSignal(false);
  const story = async (language: "zh" | "en") => {
    busy.value = true;
    const id = await attempt(sample(language));
    busy.value = false;
    if (id) go({ tab: "history", chat: id });
  };
  const other = lang.value === "zh" ? "en" : "zh";
  return (
    <section class="card stack">
      <h2>{t("start.sample")}</h2>
      <p>{t("start.sample.text")}</p>
      <div class="row">
        <button type="button" class="primary" disabled={busy.value} onClick={() => void story(lang.value)}>
          <Icon name="play" /> {busy.value ? t("start.sample.busy") : t("start.sample.go")}
        </button>
        <button type="button" disabled={busy.value} onClick={() => void story(other)}>
          {t("start.sample.other")}
        </button>
      </div>
      <a href={href({ tab: "chats", new: "import" })}>{t("start.own")}</a>
    </section>
  );
}

/** The story that is there already, or a new one. */
async function sample(language: "zh" | "en"): Promise<string> {
  const name = `demo-${language}`;
  const { items } = await get<ChatPage>("chats", { limit: 200 });
  const there = items.find((chat) => chat.name === name);
  return there ? there.id : (await post<Imported>("sample", { language })).chat.id;
}

function Upstream(): JSX.Element {
  const now = about.value;
  return (
    <section class="card stack">
      <h2>{t("start.upstream")}</h2>
      {now?.upstream ? (
        <>
          <p><span class="tag good"><Icon name="check" /> {t("start.upstream.set")}</span></p>
          <p class="ellipsis"><code>{now.upstream}</code></p>
        </>
      ) : (
        <>
          <p>{t("start.upstream.none")}</p>
          <Copy label={t("start.upstream")} text='make run ARGS="--upstream http://127.0.0.1:11434/v1"' />
        </>
      )}
      <p class="soft small">{t("start.upstream.key")}</p>
      <a href={href({ tab: "settings", part: "profiles" })}>{t("start.profile")}</a>
    </section>
  );
}

function Connect(): JSX.Element {
  const client = useSignal<Client>("sillytavern");
  const typed = useSignal<string | null>(null); // until then the open chat's name, once it is known
  const name = typed.value ?? chat.value?.name ?? "my-story";
  const base = `${location.origin}/c/${encodeURIComponent(name || "my-story")}/v1`;
  return (
    <section class="card stack">
      <h2>{t("start.connect")}</h2>
      <p>{t("start.connect.text")}</p>
      <div class="field">
        <label for="chat-name">{t("start.connect.name")}</label>
        <input
          id="chat-name"
          value={name}
          maxLength={200}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
      </div>
      <Copy label={t("start.connect.url")} text={base} />
      <div class="segments" role="group" aria-label={t("start.connect.client")}>
        {CLIENTS.map((each) => (
          <button
            type="button"
            key={each}
            aria-pressed={each === client.value}
            onClick={() => (client.value = each)}
          >
            {t(`client.${each}`)}
          </button>
        ))}
      </div>
      <ol class="how-to small-list">
        {STEPS[client.value].map((step) => <li key={step}>{t(step, { url: base })}</li>)}
      </ol>
      {client.value === "python" && <Copy block label="Python" text={python(base)} />}
    </section>
  );
}

function python(base: string): string {
  return `from openai import OpenAI

client = OpenAI(base_url="${base}", api_key="…")
client.chat.completions.create(
    model="…",
    messages=[{"role": "user", "content": "Hello!"}],
)`;
}
