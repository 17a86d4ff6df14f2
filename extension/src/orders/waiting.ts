import { Refusal } from "./refusal";

/** What an order that is given up is refused with. */
export function givenUp(signal: AbortSignal): Refusal {
  return signal.reason instanceof Refusal
    ? signal.reason
    : new Refusal("disconnected", "Nobody waits for this any more.");
}

/** Refuses if the order was given up. */
export function goOn(signal: AbortSignal): void {
  if (signal.aborted) {
    throw givenUp(signal);
  }
}

/** What `work` comes to, unless the order is given up first and `grace` milliseconds have passed then. */
export async function unlessGivenUp<T>(work: Promise<T>, signal: AbortSignal, grace = 0): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let giveUp = (): void => undefined;
  const stopped = new Promise<never>((_, reject) => {
    giveUp = () => {
      timer = setTimeout(() => reject(givenUp(signal)), grace);
    };
  });
  if (signal.aborted) {
    giveUp();
  } else {
    signal.addEventListener("abort", giveUp, { once: true });
  }
  try {
    return await Promise.race([work, stopped]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
  }
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
