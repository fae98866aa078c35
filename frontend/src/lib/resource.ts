/** What a view shows: loaded, loading or failed, and asked for again when the server says so. */

import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "./api";
import { listen, reachable, type Change } from "./live";

export interface Resource<T> {
  data: Signal<T | null>;
  problem: Signal<Problem | null>;
  loading: Signal<boolean>;
  reload: () => void;
  /** Shows what a write answered with, if this is still what is looked at; else looks again. */
  shows: (writing: Promise<T>) => Promise<void>;
}

const CALM_MS = 150; // changes come in bursts; one look answers for all of them

/**
 * `load` runs when `keys` change and when a change passes `concerns`. What was shown stays until the
 * next answer is there, unless the keys changed.
 */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
  concerns: (change: Change) => boolean = () => false,
): Resource<T> {
  const data = useSignal<T | null>(null);
  const problem = useSignal<Problem | null>(null);
  const loading = useSignal(true);
  const running = useRef<AbortController | null>(null);
  const timer = useRef(0);
  const again = useRef(false);
  const era = useRef(0); // grows when something else is looked at
  const latest = useRef({ load, concerns });
  latest.current = { load, concerns };

  const run = useRef(async (): Promise<void> => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    loading.value = true;
    try {
      const answer = await latest.current.load(mine.signal);
      if (mine.signal.aborted) return;
      data.value = answer;
      problem.value = null;
      reachable.value = true;
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      problem.value = error;
    }
    loading.value = false;
    running.current = null;
    if (again.current) {
      again.current = false;
      void run();
    }
  }).current;

  /** A load that is under way is let finish: where changes do not stop, something is shown at all. */
  const reload = useRef(() => {
    if (running.current) again.current = true;
    else void run();
  }).current;

  const shows = useRef(async (writing: Promise<T>): Promise<void> => {
    const begun = era.current;
    const answer = await writing;
    if (era.current !== begun) return reload();
    running.current?.abort(); // it may have been answered before the write
    running.current = null;
    loading.value = false;
    data.value = answer;
  }).current;

  useEffect(() => {
    era.current += 1;
    data.value = null;
    problem.value = null;
    again.current = false;
    void run();
    return () => running.current?.abort();
  }, keys);

  useEffect(() => {
    const stop = listen((change) => {
      if (change.kind !== "hello" && !latest.current.concerns(change)) return;
      clearTimeout(timer.current);
      timer.current = window.setTimeout(reload, CALM_MS);
    });
    return () => {
      stop();
      clearTimeout(timer.current);
    };
  }, []);

  return { data, problem, loading, reload, shows };
}
