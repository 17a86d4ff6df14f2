import { Refusal } from "./refusal";

/** The refusal of an order that was cancelled. */
export function cancellation(signal: AbortSignal): Refusal {
  return signal.reason instanceof Refusal
    ? signal.reason
    : new Refusal("disconnected", "The order was cancelled.");
}

export function throwIfCancelled(signal: AbortSignal): void {
  if (signal.aborted) {
    throw cancellation(signal);
  }
}

/** The result of `work`; rejects `grace` milliseconds after a cancellation, if there is no result by then. */
export async function unlessCancelled<T>(work: Promise<T>, signal: AbortSignal, grace = 0): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let cancel = (): void => undefined;
  const cancelled = new Promise<never>((_, reject) => {
    cancel = () => {
      timer = setTimeout(() => reject(cancellation(signal)), grace);
    };
  });
  if (signal.aborted) {
    cancel();
  } else {
    signal.addEventListener("abort", cancel, { once: true });
  }
  try {
    return await Promise.race([work, cancelled]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
  }
}

/** A lock for each key: work with the same key runs in the order of the calls. */
export class KeyedLock {
  private readonly last = new Map<string, Promise<unknown>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.last.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.last.get(key) === mine) {
        this.last.delete(key);
      }
    }
  }
}
