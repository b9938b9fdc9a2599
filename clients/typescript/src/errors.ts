/** The errors of this package. */

/** The worker cannot continue. */
export class RosterdError extends Error {
  static {
    // On the prototype, so that the first line of a stack has it.
    this.prototype.name = "RosterdError";
  }
}

/** The coordinator refused the job, and the worker has no other. */
export class JobRefused extends RosterdError {
  static {
    this.prototype.name = "JobRefused";
  }

  constructor(
    /** A code of the table of error codes, for example `JOB_UNKNOWN`. */
    readonly code: string,
    /** The coordinator's message. */
    readonly detail: string,
    readonly job: string,
  ) {
    super(`job '${job}' was refused: ${code}: ${detail}`);
  }
}

/** Every coordinator rejected this worker before any welcomed it: its credential, namespace or Hello is wrong. */
export class Rejected extends RosterdError {
  static {
    this.prototype.name = "Rejected";
  }

  constructor(
    /** The name of a gRPC status, for example `UNAUTHENTICATED`. */
    readonly code: string,
    readonly detail: string,
  ) {
    super(`the coordinator rejected this worker: ${code}: ${detail}`);
  }
}

/** The worker left, and no coordinator acknowledged its goodbye in time: its runs count as crashed. */
export class LeaveTimedOut extends RosterdError {
  static {
    this.prototype.name = "LeaveTimedOut";
  }

  constructor(
    /** Runs still in user code, or whose outcome was not acknowledged. */
    readonly inFlight: number,
  ) {
    super(`left without acknowledgement, ${inFlight} runs in flight`);
  }
}

/** An option, a name or a value that is not valid; the message names the field, the value and the remedy. */
export class InvalidOption extends TypeError {
  static {
    this.prototype.name = "InvalidOption";
  }
}

/**
 * The reason of a run's `AbortSignal` once the run must stop. A handler that throws it ends its run as cancelled, also
 * without a request.
 */
export class Cancelled extends Error {
  static {
    this.prototype.name = "Cancelled";
  }
}

/** A failure that is not retried, whatever the job's retry policy. */
export class Fatal extends Error {
  static {
    this.prototype.name = "Fatal";
  }
}
