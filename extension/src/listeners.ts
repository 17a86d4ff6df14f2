/** Calls back when something has changed. Calls are combined: listeners are called once in a while, not for each change. */
export class Listeners {
  readonly #all = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  /** `delay`: the milliseconds in which further changes are combined with the first. */
  constructor(private readonly delay = 100) {}

  readonly add = (listener: () => void): { dispose(): void } => {
    this.#all.add(listener);
    return { dispose: () => void this.#all.delete(listener) };
  };

  notify(): void {
    if (this.#timer) {
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#all.forEach((listener) => listener());
    }, this.delay).unref();
  }
}
