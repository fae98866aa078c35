/** What would cost more than the month has left is asked about first, once, with the sums. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Problem } from "../lib/api";
import { money, t } from "../lib/i18n";
import { Confirm } from "./dialog";
import { attempt } from "./toast";

const PAYMENT_NEEDED = 402;

interface Question {
  text: string;
  onYes: () => void;
}

const question = signal<Question | null>(null);

/** Do something by hand. If the month's budget is too small for it, the reader decides. */
export async function byHand<T>(work: (beyond: boolean) => Promise<T>, done: string, after: () => void = () => undefined): Promise<void> {
  try {
    await attempt(work(false).catch((error: unknown) => {
      if (error instanceof Problem && error.status === PAYMENT_NEEDED) throw new Dear(error);
      throw error;
    }), done);
    after();
  } catch (error) {
    if (!(error instanceof Dear)) throw error;
    const onYes = () => void attempt(work(true), done).then(after);
    question.value = { text: sums(error.problem), onYes };
  }
}

class Dear extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

function sums({ detail }: Problem): string {
  const [cost, left] = [...detail.matchAll(/\$(\d+(?:\.\d+)?)/g)].map(([, sum]) => Number(sum));
  if (cost !== undefined && left !== undefined) return t("dear.text", { cost: money(cost), left: money(left) });
  return t("dear.unknown", { left: money(cost ?? 0) });
}

export function DearQuestion(): JSX.Element | null {
  if (!question.value) return null;
  return (
    <Confirm
      title={t("dear.title")}
      text={question.value.text}
      action={t("dear.yes")}
      onYes={question.value.onYes}
      onClose={() => (question.value = null)}
    />
  );
}
