package io.rosterd.client;

/** The worker cannot continue. */
public class RosterdException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what is wrong
     */
    public RosterdException(String message) {
        super(message);
    }

    /**
     * Makes one with a cause.
     *
     * @param message what is wrong
     * @param cause why
     */
    public RosterdException(String message, Throwable cause) {
        super(message, cause);
    }
}
