package io.rosterd.client;

/** A failure that is not retried, whatever the job's retry policy. */
public class FatalException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what is wrong
     */
    public FatalException(String message) {
        super(message);
    }

    /**
     * Makes one with a cause.
     *
     * @param message what is wrong
     * @param cause why
     */
    public FatalException(String message, Throwable cause) {
        super(message, cause);
    }
}
