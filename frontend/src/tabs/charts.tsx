/** 图表: what a prompt is made of at which budget, against the whole chat; and what summaries cost. */

import type { JSX } from "preact";
import { get } from "../lib/api";
import { known, money, number, percent, t } from "../lib/i18n";
import { useResource } from "../lib/resource";
import { route } from "../lib/route";
import type { Prompt, Usage } from "../lib/api-types";
import { Columns, type Series } from "../ui/chart";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { PLACE_HUE } from "./prompt";

const BUDGETS = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000];
const PLACES = ["standing", "cover", "raw", "tail", "fragment", "pending"];

export default function Charts(): JSX.Element {
  const id = route.value.chat;
  const prompts = useResource<Prompt[]>(
    (signal) => Promise.all(BUDGETS.map((budget_tokens) => get<Prompt>(`chats/${id}/prompt`, { budget_tokens }, signal))),
    [id],
    (change) => change.kind === "chat" && change.chat === id,
  );
  const usage = useResource<Usage>((signal) => get("usage", { by: "month" }, signal), []);
  return (
    <>
      <Title text={t("tab.charts")} ofChat lead={t("charts.lead")} />
      <section class="card">
        <Shown of={prompts}>{(found) => <Budgets prompts={found} />}</Shown>
      </section>
      <section class="card">
        <Shown of={usage}>{(found) => <Cost usage={found} />}</Shown>
      </section>
    </>
  );
}

function Budgets({ prompts }: { prompts: Prompt[] }): JSX.Element {
  const whole = prompts[0]?.chat_tokens ?? 0;
  if (!whole) return <Empty icon="chart" title={t("charts.empty")} text={t("charts.empty.text")} />;
  const series: Series[] = PLACES.map((place) => ({
    name: known("place", place),
    hue: PLACE_HUE[place] ?? "hidden",
    values: [...prompts.map((each) => each.layers[place] ?? 0), 0],
  })).filter(({ values }) => values.some((value) => value > 0));
  series.push({ name: t("charts.without"), hue: "hidden", values: [...prompts.map(() => 0), whole] });
  const own = prompts.find((each) => each.budget_tokens === 8_000);
  return (
    <>
      <Columns
        title={t("charts.budgets")}
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
