/** 任务: what is being written, what waits for what, and what has piled up. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { get, post, remove } from "../lib/api";
import { duration, floors, fromNow, known, money, number, said, t } from "../lib/i18n";
import { useResource } from "../lib/resource";
import { href } from "../lib/route";
import type { Estimate, Task, Tasks, Work } from "../lib/api-types";
import { byHand } from "../ui/dear";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { attempt } from "../ui/toast";

const TONE: Record<Task["state"], string> = {
  due: "", running: "accent", waiting: "warn", failed: "bad", cancelled: "", held: "warn",
};

/** When something comes; what should have come already comes now. */
const comes = (at_ms: number): string => fromNow(Math.max(at_ms, Date.now()));

export default function TasksTab(): JSX.Element {
  const list = useResource<Tasks>(
    (signal) => get("tasks", {}, signal), [], ({ kind }) => kind === "chat",
  );
  return (
    <>
      <Title text={t("tab.tasks")} lead={t("tasks.lead")} />
      <Shown of={list}>
        {({ items, work, more }) => (
          <>
            {work.length > 0 && (
              <ul class="stack">
                {work.map((each) => <li key={each.chat}><Progress work={each} onChanged={list.reload} /></li>)}
              </ul>
            )}
            {items.length === 0
              ? <Empty icon="check" title={t("tasks.empty")} text={t("tasks.empty.text")} />
              : (
                <ul class="stack tight">
                  {items.map((task) => <li key={task.id}><One task={task} onChanged={list.reload} /></li>)}
                </ul>
              )}
            {more && <p class="soft">{t("tasks.more")}</p>}
          </>
        )}
      </Shown>
    </>
  );
}

function Progress({ work, onChanged }: { work: Work; onChanged: () => void }): JSX.Element {
  const estimate = useSignal<Estimate | null>(null);
  const running = work.wishes.includes("backfill");
  const at = `chats/${work.chat}/backfill`;
  return (
    <section class="card stack tight">
      <div class="row">
        <h2 class="grow"><a href={href({ tab: "summaries", chat: work.chat })}>{work.chat_title}</a></h2>
        {work.working && <span class="tag accent">{t("tasks.working")}</span>}
      </div>
      <p class="meta">
        <span>{t("tasks.summaries", { n: work.summaries })}</span>
        <span>{t("tasks.uncovered", { n: work.uncovered })}</span>
        {work.next_look_ms !== null && !work.working && <span>{t("tasks.next", { when: comes(work.next_look_ms) })}</span>}
      </p>
      <div class="row">
        {running ? (
          <button type="button" onClick={() => void attempt(remove(at), t("backfill.paused")).then(onChanged)}>
            <Icon name="pause" /> {t("backfill.pause")}
          </button>
        ) : (
          <button
            type="button"
            onClick={() => void attempt(post<Estimate>(at, { dry_run: true })).then((look) => (estimate.value = look))}
          >
            <Icon name="play" /> {t("backfill")}
          </button>
        )}
      </div>
      {estimate.value && (
        <Backfill
          estimate={estimate.value}
          onYes={() => void byHand((beyond_budget) => post(at, { dry_run: false, beyond_budget }), t("backfill.begun"), onChanged)}
          onClose={() => (estimate.value = null)}
        />
      )}
    </section>
  );
}

function Backfill({ estimate, onYes, onClose }: {
  estimate: Estimate;
  onYes: () => void;
  onClose: () => void;
}): JSX.Element {
  return (
    <Dialog title={t("backfill")} onClose={onClose}>
      <p>{t("backfill.text", { n: estimate.messages })}</p>
      <dl class="facts">
        <div><dt>{t("backfill.model")}</dt><dd>{estimate.model}</dd></div>
        <div><dt>{t("backfill.calls")}</dt><dd>
          {estimate.calls_max > estimate.calls
            ? t("backfill.calls_range", { few: number(estimate.calls), many: number(estimate.calls_max) })
            : number(estimate.calls)}
        </dd></div>
        <div><dt>{t("backfill.tokens")}</dt><dd>{number(estimate.input_tokens + estimate.output_tokens)}</dd></div>
        <div><dt>{t("backfill.cost")}</dt><dd>{estimate.cost_usd === null ? t("unknown") : money(estimate.cost_usd)}</dd></div>
        <div><dt>{t("backfill.time")}</dt><dd>{duration(estimate.seconds)}</dd></div>
      </dl>
      <div class="row end">
        <button type="button" onClick={onClose}>{t("cancel")}</button>
        <button
          type="button"
          class="primary"
          disabled={estimate.calls === 0}
          onClick={() => {
            onYes();
            onClose();
          }}
        >
          {t("backfill.begin")}
        </button>
      </div>
    </Dialog>
  );
}

function One({ task, onChanged }: { task: Task; onChanged: () => void }): JSX.Element {
  const act = (what: "retry" | "cancel") =>
    void attempt(post(`tasks/${task.id}/${what}`), t(`tasks.${what}.done`)).then(onChanged);
  const kind = task.error && known("error", task.error, task.reason ? "" : task.error);
  return (
    <article class="card task" data-state={task.state}>
      <header>
        <h2>{known("task", task.kind)}</h2>
        <span class={`tag ${TONE[task.state]}`}>{t(`state.${task.state}`)}</span>
        <a href={href({ tab: "history", chat: task.chat, ...(task.first_floor !== null && { floor: task.first_floor }) })}>
          {task.chat_title}
          {task.first_floor !== null && ` · ${floors(task.first_floor, task.last_floor)}`}
        </a>
        <span class="row tight last">
          {task.state !== "running" && (
            <button type="button" class="plain" onClick={() => act("retry")}><Icon name="refresh" /> {t("tasks.retry")}</button>
          )}
          {task.state !== "cancelled" && (
            <button type="button" class="plain" onClick={() => act("cancel")}>{t("tasks.cancel")}</button>
          )}
        </span>
      </header>
      {kind && <p>{kind}</p>}
      {task.reason && <p class={kind ? "soft small" : ""}>{said(task.reason)}</p>}
      {(task.tries > 0 || task.next_try_ms !== null) && (
        <p class="meta">
          {task.tries > 0 && <span>{t("tasks.tries", { n: task.tries })}</span>}
          {task.next_try_ms !== null && <span>{t("tasks.next", { when: comes(task.next_try_ms) })}</span>}
        </p>
      )}
    </article>
  );
}
