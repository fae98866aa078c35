/** The shell: where one is, where one can go, and whether the server is there. */

import "./app.css";
import { signal, useSignalEffect } from "@preact/signals";
import { render, type ComponentType, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { locked } from "./lib/api";
import { known, t, type Word } from "./lib/i18n";
import { goLive, reachable } from "./lib/live";
import { chooseLang, chooseTheme, lang, theme, type Lang, type Theme } from "./lib/prefs";
import { href, OF_A_CHAT, route, type Tab } from "./lib/route";
import { chatTitle, followChats, waiting } from "./lib/store";
import { Icon, type IconName } from "./ui/icon";
import { DearQuestion } from "./ui/dear";
import { Login } from "./ui/login";
import { Empty, Failed, Loading } from "./ui/states";
import { Toasts } from "./ui/toast";

const GROUPS: { word: Word | null; tabs: Tab[] }[] = [
  { word: null, tabs: ["start", "chats"] },
  { word: "nav.chat", tabs: ["history", "summaries", "prompt", "charts"] },
  { word: "nav.house", tabs: ["tasks", "settings"] },
];
const ICONS: Record<Tab, IconName> = {
  start: "start", chats: "chats", history: "history", summaries: "summaries",
  prompt: "prompt", charts: "chart", tasks: "tasks", settings: "settings",
};

// Each tab is a file of its own, asked for when it is first opened.
const LOADERS: Record<Tab, () => Promise<{ default: ComponentType }>> = {
  start: () => import("./tabs/start"),
  chats: () => import("./tabs/chats"),
  history: () => import("./tabs/history"),
  summaries: () => import("./tabs/summaries"),
  prompt: () => import("./tabs/prompt"),
  charts: () => import("./tabs/charts"),
  tasks: () => import("./tabs/tasks"),
  settings: () => import("./tabs/settings"),
};

const loaded = signal<Partial<Record<Tab, ComponentType>>>({});
const missing = signal(false);
const menuOpen = signal(false);

async function need(tab: Tab): Promise<void> {
  missing.value = false;
  if (loaded.value[tab]) return;
  try {
    const module = await LOADERS[tab]();
    loaded.value = { ...loaded.value, [tab]: module.default };
  } catch {
    missing.value = true; // the server is away, or a newer page has other file names
  }
}

function View(): JSX.Element {
  const { tab, chat } = route.value;
  useSignalEffect(() => void need(route.value.tab));
  useSignalEffect(() => {
    if (reachable.value && missing.value) void need(route.value.tab);
  });
  if (OF_A_CHAT.includes(tab) && !chat) {
    return (
      <Empty icon="chats" title={t("chat.none")} text={t("chat.none.text")}>
        <a class="button primary" href={href({ tab: "chats" })}>{t("chat.choose")}</a>
      </Empty>
    );
  }
  const Tab = loaded.value[tab];
  if (Tab) return <Tab key={`${tab}:${OF_A_CHAT.includes(tab) ? chat : ""}`} />;
  return missing.value ? <Failed error={t("problem.part")} retry={() => location.reload()} /> : <Loading />;
}

function Navigation(): JSX.Element {
  const here = route.value.tab;
  return (
    <nav aria-label={t("nav.label")}>
      {GROUPS.map(({ word, tabs }) => (
        <div key={word ?? ""}>
          {word && <p class="ellipsis">{word === "nav.chat" ? chatTitle.value || t(word) : t(word)}</p>}
          <ul>
            {tabs.map((tab) => (
              <li key={tab}>
                <a
                  href={href({ tab })}
                  aria-current={tab === here ? "page" : undefined}
                  onClick={() => (menuOpen.value = false)}
                >
                  <Icon name={ICONS[tab]} /> {known("tab", tab)}
                  {tab === "tasks" && waiting.value > 0 && <span class="tag accent count num">{waiting.value}</span>}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Choices(): JSX.Element {
  return (
    <div class="foot">
      <label>
        <span class="visually-hidden">Language · 语言</span>
        <select value={lang.value} onChange={(event) => chooseLang(event.currentTarget.value as Lang)}>
          <option value="zh" lang="zh-CN">中文</option>
          <option value="en" lang="en">English</option>
        </select>
      </label>
      <label>
        <span class="visually-hidden">{t("theme")}</span>
        <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
          {(["auto", "light", "dark"] as const).map((each) => (
            <option key={each} value={each}>{t(`theme.${each}`)}</option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Shell(): JSX.Element {
  const main = useRef<HTMLElement>(null);
  const { tab, chat } = route.value;
  const first = useRef(true);
  useEffect(() => {
    document.title = `${known("tab", tab)} · ${t("brand")}`;
  }, [tab, lang.value]);
  useEffect(() => {
    // After going elsewhere a reader by keyboard or ear starts at the new content.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [tab, chat]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        {t("nav.skip")}
      </a>
      {!reachable.value && <div class="banner" role="alert">{t("away")}</div>}
      <nav class="topbar" aria-label={t("nav.menu")}>
        <button
          type="button"
          class="icon plain"
          aria-label={t("nav.menu")}
          aria-expanded={menuOpen.value}
          aria-controls="side"
          onClick={() => (menuOpen.value = !menuOpen.value)}
        >
          <Icon name="menu" />
        </button>
        <b class="ellipsis">{t("brand")}</b>
        <span class="soft ellipsis">{OF_A_CHAT.includes(tab) ? chatTitle.value : ""}</span>
      </nav>
      <div class="shell">
        <header id="side" class={menuOpen.value ? "side open" : "side"}>
          <a class="brand" href={href({ tab: "start" })}>
            <img src="/icon.svg" alt="" width="30" height="30" />
            <span><b>{t("brand")}</b>{t("brand.line")}</span>
          </a>
          <Navigation />
          <Choices />
        </header>
        <main id="main" class="main" tabIndex={-1} ref={main}>
          <div class="inner">{locked.value ? <Login /> : <View />}</div>
        </main>
      </div>
      <DearQuestion />
      <Toasts />
    </>
  );
}

goLive();
followChats();
render(<Shell />, document.getElementById("app")!);
