/** What comes of a promise, or nothing if that takes longer. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
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

/** Pauses between attempts, each longer than the one before. */
export class Pauses {
  #next: number;
  #wake: (() => void) | undefined;

  constructor(
    private readonly first = 200,
    private readonly longest = 5000,
  ) {
    this.#next = first;
  }

  /** Begin with the shortest again. */
  reset(): void {
    this.#next = this.first;
  }

  /** The length of the next pause, in milliseconds; a little different each time, so that not all come at once. */
  next(): number {
    const length = this.#next;
    this.#next = Math.min(length * 2, this.longest);
    return length * (0.8 + 0.2 * Math.random());
  }

  /** Wait for the next pause to pass. */
  async pass(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.next());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }

  /** Let a pause be over now. */
  wake(): void {
    this.#wake?.();
  }
}
