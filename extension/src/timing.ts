export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** The result of a promise; undefined if that takes longer than `ms`. */
export async function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Delays between attempts: exponential, with jitter. */
export class Backoff {
  #next: number;
  #wake: (() => void) | undefined;

  constructor(
    private readonly first = 200,
    private readonly longest = 5000,
  ) {
    this.#next = first;
  }

  /** Start with the shortest delay again. */
  reset(): void {
    this.#next = this.first;
  }

  /** Wait for the next delay, or until `wake`. */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#nextDelay());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }

  /** End the current delay. */
  wake(): void {
    this.#wake?.();
  }

  #nextDelay(): number {
    const delay = this.#next;
    this.#next = Math.min(delay * 2, this.longest);
    return delay * (0.8 + 0.2 * Math.random());
  }
}
