/** The trace that a run belongs to, for OpenTelemetry: its API is used if the program has it, and not required. */

type Api = typeof import("@opentelemetry/api");

let api: Api | undefined;

/** Looks for OpenTelemetry's API. */
export async function findTracing(): Promise<void> {
  try {
    api = await import("@opentelemetry/api");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
  }
}

/** Executes an action within the carrier's context, as the program's propagator reads it. */
export function withTrace<T>(carrier: Readonly<Record<string, string>>, action: () => T): T {
  if (api === undefined) return action();
  const { context, propagation } = api;
  return context.with(propagation.extract(context.active(), carrier), action);
}
