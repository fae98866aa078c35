/** 图表: what prompts have weighed turn by turn, against going without; at which budget; the cost. */

import type { JSX } from "preact";
import { get } from "../lib/api";
import { known, money, number, percent, t } from "../lib/i18n";
import { useResource } from "../lib/resource";
import { route } from "../lib/route";
import type { Prompt, SentTurn, SentTurns, Usage } from "../lib/api-types";
import { Columns, type Series } from "../ui/chart";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { PLACE_HUE } from "./prompt";

const BUDGETS = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000];
const TURNS = 100;
const PLACES = ["head", "carried", "standing", "cover", "raw", "tail", "fragment", "pending"];

export default function Charts(): JSX.Element {
  const id = route.value.chat;
  const prompts = useResource<Prompt[]>(
    (signal) => Promise.all(BUDGETS.map((budget_tokens) => get<Prompt>(`chats/${id}/prompt`, { budget_tokens }, signal))),
    [id],
    (change) => change.kind === "chat" && change.chat === id,
  );
  const turns = useResource<SentTurns>(
    (signal) => get(`chats/${id}/turns`, { limit: TURNS }, signal),
    [id],
    (change) => change.kind === "chat" && change.chat === id,
  );
  const usage = useResource<Usage>((signal) => get("usage", { by: "month" }, signal), []);
  return (
    <>
      <Title text={t("tab.charts")} ofChat lead={t("charts.lead")} />
      <Shown of={turns}>{({ items }) => <Turns turns={items} />}</Shown>
      <section class="card stack">
        <Shown of={prompts}>{(found) => <Budgets prompts={found} />}</Shown>
      </section>
      <section class="card">
        <Shown of={usage}>{(found) => <Cost usage={found} />}</Shown>
      </section>
    </>
  );
}

/** Stacked by layer, where there is anything of it. */
function layers(all: Record<string, number>[]): Series[] {
  return PLACES.map((place) => ({
    name: known("place", place),
    hue: PLACE_HUE[place] ?? "hidden",
    values: all.map((each) => each[place] ?? 0),
  })).filter(({ values }) => values.some((value) => value > 0));
}

function Turns({ turns }: { turns: SentTurn[] }): JSX.Element {
  if (!turns.length) {
    return (
      <section class="card stack tight">
        <h2>{t("charts.turns")}</h2>
        <p class="soft">{t("charts.turns.none")}</p>
      </section>
    );
  }
  const labels = turns.map(({ n }) => String(n));
  const sum = (of: (turn: SentTurn) => number) => turns.reduce((total, turn) => total + of(turn), 0);
  const without = turns.map((turn) => Math.max(turn.chat_tokens, turn.client_tokens));
  const sent = sum(({ tokens }) => tokens);
  const whole = without.reduce((total, each) => total + each, 0);
  const cached = sum(({ same_tokens }) => same_tokens) / Math.max(1, sent);
  return (
    <>
      <section class="card stack">
        <Columns
          title={t("charts.turns")}
          what={t("charts.turn")}
          labels={labels}
          series={layers(turns.map((turn) => turn.layers))}
          lines={[{ name: t("charts.without"), hue: "dropped", values: without }]}
        />
        <p class="soft">
          {whole > sent
            ? t("charts.turns.says", { turns: turns.length, sent: number(sent), whole: number(whole), share: percent(1 - sent / whole) })
            : t("charts.turns.short")}
        </p>
      </section>
      <section class="card stack">
        <Columns
          title={t("charts.cache")}
          what={t("charts.turn")}
          labels={labels}
          series={[{
            name: t("charts.cache.share"),
            hue: "verbatim",
            values: turns.map((turn) => turn.same_tokens / Math.max(1, turn.tokens)),
          }]}
          limit={{ name: t("charts.cache.mean"), value: cached }}
          height={200}
          format={percent}
        />
        <p class="soft">{t("charts.cache.says", { share: percent(cached) })}</p>
      </section>
    </>
  );
}

function Budgets({ prompts }: { prompts: Prompt[] }): JSX.Element {
  const whole = prompts[0]?.chat_tokens ?? 0;
  if (!whole) return <Empty icon="chart" title={t("charts.empty")} text={t("charts.empty.text")} />;
  const series = layers([...prompts.map((each) => each.layers), {}]);
  series.push({ name: t("charts.without"), hue: "hidden", values: [...prompts.map(() => 0), whole] });
  const own = prompts.find((each) => each.budget_tokens === 8_000);
  return (
    <>
      <Columns
        title={t("charts.budgets")}
        what={t("prompt.budget")}
        labels={[...BUDGETS.map((budget) => `${budget / 1000}k`), t("charts.all")]}
        series={series}
      />
      {own && whole > own.tokens && (
        <p class="soft">{t("charts.says", { tokens: number(own.tokens), whole: number(whole), share: percent(1 - own.tokens / whole) })}</p>
      )}
    </>
  );
}

function Cost({ usage }: { usage: Usage }): JSX.Element {
  const months = usage.items.slice(-12);
  return (
    <div class="stack">
      {months.length === 0 ? (
        <>
          <h2>{t("charts.cost")}</h2>
          <p class="soft">{t("charts.cost.none")}</p>
        </>
      ) : (
        <Columns
          title={t("charts.cost")}
          what={t("charts.month")}
          labels={months.map(({ label }) => label)}
          series={[{ name: t("charts.cost.spent"), hue: "summary", values: months.map((month) => month.cost_usd) }]}
          limit={{ name: t("charts.cost.budget"), value: usage.budget_usd }}
          format={money}
        />
      )}
      <dl class="facts">
        <div><dt>{t("charts.cost.month")}</dt><dd>{money(usage.spent_usd)}</dd></div>
        <div><dt>{t("charts.cost.budget")}</dt><dd>{money(usage.budget_usd)}</dd></div>
        <div><dt>{t("charts.calls")}</dt><dd>{number(months.reduce((sum, month) => sum + month.calls, 0))}</dd></div>
      </dl>
    </div>
  );
}
