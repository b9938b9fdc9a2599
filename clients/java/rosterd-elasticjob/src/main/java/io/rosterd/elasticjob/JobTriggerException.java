package io.rosterd.elasticjob;

/** A coordinator did not trigger a job. */
public final class JobTriggerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message which job, and what the coordinator said
     * @param cause what the call ended with
     */
    public JobTriggerException(String message, Throwable cause) {
        super(message, cause);
    }
}
